// What io.h promises about File, save for submitted requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <thread>

#include "io/file_system_conformance.h"

namespace penstock::io {
namespace {

std::string random_text(std::mt19937_64& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST_P(FileSystemConformance, AReadStopsAtTheEndOfTheFile) {
  const auto file = make("f", "0123456789");
  EXPECT_EQ(read_string(*file, 0, 10), "0123456789");
  EXPECT_EQ(read_string(*file, 4, 100), "456789");
  EXPECT_EQ(read_string(*file, 9, 1), "9");
  EXPECT_EQ(read_string(*file, 10, 5), "");
  EXPECT_EQ(read_string(*file, 100000, 5), "");
  EXPECT_EQ(read_string(*file, 3, 0), "");
}

TEST_P(FileSystemConformance, TransfersAreWhole) {
  std::mt19937_64 random(1);
  const std::string text = random_text(random, 3 * kMiB + 17);
  const auto file = make("f", text);
  EXPECT_TRUE(read_string(*file, 0, text.size()) == text);
  EXPECT_TRUE(contents("f") == text);
}

TEST_P(FileSystemConformance, AnEmptyWriteChangesNothing) {
  const auto file = make("f", "abc");
  PENSTOCK_EXPECT_OK(file->write(100, {}));
  EXPECT_EQ(file->stat()->size, 3u);
}

TEST_P(FileSystemConformance, HolesReadAsZeros) {
  const auto file = make("f", "ab");
  PENSTOCK_EXPECT_OK(write_string(*file, 10000, "z"));
  EXPECT_EQ(contents("f"), "ab" + std::string(9998, '\0') + "z");
  EXPECT_EQ(read_string(*file, 0, 20000), contents("f"));
}

TEST_P(FileSystemConformance, EveryOpenFileSeesTheWrites) {
  const auto file = make("f", "first");
  const auto second = *try_open("f", Create::kNever, Access::kRead);
  EXPECT_EQ(read_string(*second, 0, 100), "first");
  PENSTOCK_EXPECT_OK(write_string(*file, 3, "ty-five"));
  EXPECT_EQ(read_string(*second, 0, 100), "firty-five");
  EXPECT_EQ(contents("f"), "firty-five");
}

TEST_P(FileSystemConformance, AccessIsKept) {
  make("f", "abc");
  const auto reader = *try_open("f", Create::kNever, Access::kRead);
  PENSTOCK_EXPECT_ERROR(write_string(*reader, 0, "x"), kInvalid);
  PENSTOCK_EXPECT_ERROR(reader->truncate(0), kInvalid);
  const auto writer = *try_open("f", Create::kNever, Access::kWrite);
  std::string text(3, '?');
  PENSTOCK_EXPECT_ERROR(writer->read(0, bytes_of(text)), kInvalid);
  PENSTOCK_EXPECT_OK(write_string(*writer, 1, "X"));  // Also where direct I/O must read the block.
  EXPECT_EQ(contents("f"), "aXc");
}

TEST_P(FileSystemConformance, TruncateCutsAndGrows) {
  const auto file = make("f", std::string(5000, 'a'));
  PENSTOCK_EXPECT_OK(file->truncate(10));
  EXPECT_EQ(file->stat()->size, 10u);
  PENSTOCK_EXPECT_OK(file->truncate(4100));
  EXPECT_EQ(contents("f"), std::string(10, 'a') + std::string(4090, '\0'));
  EXPECT_EQ(read_string(*file, 0, 5000), contents("f"));
}

TEST_P(FileSystemConformance, AllocateReservesZerosAndGrows) {
  const auto file = make("f", "data");
  const Result<void> allocated = file->allocate(2, 20000);
  if (!allocated.ok() && allocated.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << allocated.error().to_string();
  }
  PENSTOCK_EXPECT_OK(allocated);
  EXPECT_EQ(file->stat()->size, 20002u);
  EXPECT_GE(file->stat()->allocated_bytes, 20000u);
  EXPECT_EQ(contents("f"), "data" + std::string(19998, '\0'));
  PENSTOCK_EXPECT_OK(file->allocate(0, 100));
  EXPECT_EQ(file->stat()->size, 20002u);
}

TEST_P(FileSystemConformance, SyncsSucceed) {
  const auto file = make("f", "data");
  PENSTOCK_EXPECT_OK(file->sync());
  PENSTOCK_EXPECT_OK(file->data_sync());
  std::vector<IoRequest> requests;
  requests.push_back(IoRequest::sync(nullptr));
  requests.push_back(IoRequest::data_sync(nullptr));
  std::vector<Result<size_t>> answers;
  PENSTOCK_EXPECT_OK(run_all(*file, requests, &answers));
  for (const auto& answer : answers) EXPECT_EQ(*answer, 0u);
}

TEST_P(FileSystemConformance, AdviceIsTaken) {
  const auto file = make("f", std::string(100000, 'a'));
  for (const Advice advice : {Advice::kNormal, Advice::kSequential, Advice::kRandom,
                              Advice::kWillNeed, Advice::kDontNeed, Advice::kFill}) {
    PENSTOCK_EXPECT_OK(file->advise(advice, 4096, 8192));
    OpenOptions advised = options(Create::kNever, Access::kRead);
    advised.advice = advice;
    PENSTOCK_EXPECT_OK(fs().open(path("f"), advised));
  }
  EXPECT_EQ(contents("f"), std::string(100000, 'a'));
}

TEST_P(FileSystemConformance, ModeAndAlignmentAreTold) {
  const auto file = make("f");
  EXPECT_EQ(file->mode(), GetParam().mode);
  EXPECT_TRUE(std::has_single_bit(file->alignment().memory_bytes));
  EXPECT_TRUE(std::has_single_bit(file->alignment().offset_bytes));
  if (GetParam().mode != CacheMode::kDirect) {
    EXPECT_EQ(file->alignment().offset_bytes, 1u);
    EXPECT_EQ(file->alignment().memory_bytes, 1u);
  }
}

TEST_P(FileSystemConformance, StatTellsAboutTheFile) {
  const auto file = make("f", "12345");
  const FileInfo info = *file->stat();
  EXPECT_EQ(info.kind, FileKind::kFile);
  EXPECT_EQ(info.size, 5u);
  EXPECT_EQ(info.links, 1u);
  const FileInfo by_path = *fs().stat(path("f"));
  EXPECT_EQ(by_path.inode, info.inode);
  EXPECT_EQ(by_path.device, info.device);
  EXPECT_EQ(by_path.mtime_ns, info.mtime_ns);
  EXPECT_NE(info.inode, make("g")->stat()->inode);
}

TEST_P(FileSystemConformance, TimesAdvanceWithChanges) {
  const auto file = make("f", "1");
  const FileInfo before = *file->stat();
  // Clocks of real file systems tick every few milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "2"));
  const FileInfo after = *file->stat();
  EXPECT_GT(after.mtime_ns, before.mtime_ns);
  EXPECT_GT(after.ctime_ns, before.ctime_ns);
}

TEST_P(FileSystemConformance, AttributesAreThoseThatWereSet) {
  const auto file = make("f", "abc");
  const FileInfo before = *file->stat();
  constexpr int64_t kTime = 1'600'000'000'123'456'789;
  PENSTOCK_EXPECT_OK(file->set_attributes(0640, std::nullopt));
  EXPECT_EQ(file->stat()->mode, 0640u);
  EXPECT_EQ(file->stat()->mtime_ns, before.mtime_ns);
  PENSTOCK_EXPECT_OK(file->set_attributes(std::nullopt, kTime));
  EXPECT_EQ(file->stat()->mode, 0640u);
  EXPECT_EQ(file->stat()->mtime_ns, kTime);
  PENSTOCK_EXPECT_OK(file->set_attributes(0444, kTime + 1));
  PENSTOCK_EXPECT_OK(file->set_attributes(std::nullopt, std::nullopt));
  const FileInfo by_path = *fs().stat(path("f"));
  EXPECT_EQ(by_path.mode, 0444u);
  EXPECT_EQ(by_path.mtime_ns, kTime + 1);
  EXPECT_EQ(by_path.size, 3u);
  EXPECT_GE(by_path.ctime_ns, before.ctime_ns);
  EXPECT_EQ(contents("f"), "abc");
}

TEST_P(FileSystemConformance, AttributesMayBeSetByReadersAndNeedNoUmask) {
  make("f", "abc");
  const auto reader = *try_open("f", Create::kNever, Access::kRead);
  PENSTOCK_EXPECT_OK(reader->set_attributes(0777, 1'000'000'000));
  EXPECT_EQ(reader->stat()->mode, 0777u);
  EXPECT_EQ(reader->stat()->mtime_ns, 1'000'000'000);
  // What says which kind of file it is, as in st_mode, does not count.
  PENSTOCK_EXPECT_OK(reader->set_attributes(0100600, std::nullopt));
  EXPECT_EQ(fs().stat(path("f"))->mode, 0600u);
  EXPECT_EQ(fs().stat(path("f"))->kind, FileKind::kFile);
}

TEST_P(FileSystemConformance, TimesBefore1970CanBeSet) {
  const auto file = make("f");
  for (const int64_t time : {int64_t{0}, int64_t{-1}, int64_t{-1'500'000'000}}) {
    PENSTOCK_EXPECT_OK(file->set_attributes(std::nullopt, time));
    EXPECT_EQ(file->stat()->mtime_ns, time);
  }
}

TEST_P(FileSystemConformance, AWriteSetsTheTimeAnew) {
  const auto file = make("f", "abc");
  PENSTOCK_EXPECT_OK(file->set_attributes(0600, 1'000'000'000));
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "x"));
  EXPECT_GT(file->stat()->mtime_ns, 1'000'000'000);
  EXPECT_EQ(file->stat()->mode, 0600u);
}

TEST_P(FileSystemConformance, SparseFilesTakeLessThanTheirSize) {
  const auto file = make("f");
  PENSTOCK_EXPECT_OK(write_string(*file, 16 * kMiB, "x"));
  EXPECT_LT(file->stat()->allocated_bytes, file->stat()->size);
}

TEST_P(FileSystemConformance, AfterCloseEveryCallAnswersClosed) {
  const auto file = make("f", "abc");
  PENSTOCK_EXPECT_OK(file->close());
  PENSTOCK_EXPECT_OK(file->close());
  std::string text(3, '?');
  PENSTOCK_EXPECT_ERROR(file->read(0, bytes_of(text)), kClosed);
  PENSTOCK_EXPECT_ERROR(write_string(*file, 0, "x"), kClosed);
  PENSTOCK_EXPECT_ERROR(file->sync(), kClosed);
  PENSTOCK_EXPECT_ERROR(file->data_sync(), kClosed);
  PENSTOCK_EXPECT_ERROR(file->allocate(0, 1), kClosed);
  PENSTOCK_EXPECT_ERROR(file->truncate(0), kClosed);
  PENSTOCK_EXPECT_ERROR(file->advise(Advice::kNormal, 0, 1), kClosed);
  PENSTOCK_EXPECT_ERROR(file->set_attributes(0600, 1), kClosed);
  PENSTOCK_EXPECT_ERROR(file->stat(), kClosed);
  std::vector<IoRequest> requests;
  requests.push_back(IoRequest::read(0, bytes_of(text), nullptr));
  PENSTOCK_EXPECT_ERROR(run_all(*file, requests), kClosed);
}

TEST_P(FileSystemConformance, ThreadsMayShareAFile) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPart = 50000;  // Not a multiple of any block: neighbours share blocks.
  const auto file = make("f", std::string(kThreads * kPart, '-'));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&file, t] {
      const std::string text(1000, static_cast<char>('a' + t));
      for (size_t at = 0; at < kPart; at += text.size()) {
        PENSTOCK_EXPECT_OK(write_string(*file, t * kPart + at, text));
        EXPECT_EQ(read_string(*file, t * kPart + at, text.size()), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (size_t t = 0; t < kThreads; ++t) expected.append(kPart, static_cast<char>('a' + t));
  EXPECT_TRUE(contents("f") == expected);
}

// A file beside the std::string it should equal, changed at random: any offset, size and address.
class RandomTransfers {
 public:
  RandomTransfers(File& file, uint64_t seed) : file_(file), random_(seed) {}

  void step() {
    switch (random_() % 8) {
      case 0:
        truncate();
        break;
      case 1:
        allocate();
        break;
      case 2:
      case 3:
        write();
        break;
      case 4:
      case 5:
        write_batch();
        break;
      default:
        read_batch();
    }
  }
  const std::string& model() const { return model_; }

 private:
  static constexpr size_t kSizeMax = 60000;

  // Sizes around those of sectors, blocks and several blocks are as likely as any other.
  size_t some(size_t limit) {
    const size_t free = random_() % (limit + 1);
    if (random_() % 2 == 0) return free;
    constexpr size_t kEdges[] = {0, 1, 511, 512, 4095, 4096, 4097, 8192, 12288, 16384};
    return std::min(limit, kEdges[random_() % std::size(kEdges)]);
  }

  void grow_model(size_t size) {
    if (model_.size() < size) model_.resize(size, '\0');
  }

  void truncate() {
    const size_t size = some(kSizeMax);
    PENSTOCK_EXPECT_OK(file_.truncate(size));
    model_.resize(size, '\0');
  }

  void allocate() {
    const size_t offset = some(kSizeMax / 2);
    const size_t length = some(kSizeMax / 2) + 1;
    const Result<void> allocated = file_.allocate(offset, length);
    if (!allocated.ok() && allocated.error().code == ErrorCode::kUnsupported) return;
    PENSTOCK_EXPECT_OK(allocated);
    grow_model(offset + length);
  }

  void write() {
    const size_t offset = some(kSizeMax / 2);
    const size_t skew = random_() % 600;  // Moves the address.
    const std::string text = random_text(random_, some(kSizeMax / 2) + skew);
    const std::string_view part = std::string_view(text).substr(skew);
    PENSTOCK_EXPECT_OK(write_string(file_, offset, part));
    if (part.empty()) return;
    grow_model(offset + part.size());
    model_.replace(offset, part.size(), part);
  }

  // Requests side by side, which may share blocks but no bytes.
  void write_batch() {
    std::vector<std::string> texts;
    std::vector<IoRequest> requests;
    size_t at = some(10000);
    for (size_t i = 0; i < 6; ++i) texts.push_back(random_text(random_, 1 + some(5000)));
    for (const std::string& text : texts) {
      requests.push_back(IoRequest::write(at, std::as_bytes(std::span(text)), nullptr));
      grow_model(at + text.size());
      model_.replace(at, text.size(), text);
      at += text.size() + random_() % 3000;
    }
    std::vector<Result<size_t>> answers;
    PENSTOCK_EXPECT_OK(run_all(file_, requests, &answers));
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(*answers[i], texts[i].size());
  }

  void read_batch() {
    struct Read {
      size_t offset;
      std::string text;
    };
    std::vector<Read> reads;
    for (size_t i = 0; i < 6; ++i) reads.push_back({some(kSizeMax), std::string(some(20000), '?')});
    std::vector<IoRequest> requests;
    for (Read& read : reads) {
      requests.push_back(IoRequest::read(read.offset, bytes_of(read.text), nullptr));
    }
    std::vector<Result<size_t>> answers;
    PENSTOCK_EXPECT_OK(run_all(file_, requests, &answers));
    for (size_t i = 0; i < reads.size(); ++i) {
      const size_t start = std::min(reads[i].offset, model_.size());
      const std::string expected = model_.substr(start, reads[i].text.size());
      EXPECT_EQ(answers[i].value_or(0), expected.size());
      EXPECT_TRUE(reads[i].text.substr(0, expected.size()) == expected);
    }
  }

  File& file_;
  std::mt19937_64 random_;
  std::string model_;
};

TEST_P(FileSystemConformance, RandomTransfersMatchAModel) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto file = make("f");
    RandomTransfers transfers(*file, seed);
    for (int i = 0; i < 60 && !HasFailure(); ++i) transfers.step();
    EXPECT_EQ(file->stat()->size, transfers.model().size());
    EXPECT_TRUE(read_string(*file, 0, transfers.model().size() + 1) == transfers.model());
    EXPECT_TRUE(contents("f") == transfers.model());
  }
}

TEST_P(FileSystemConformance, NothingLiesBeyondTheLargestOffset) {
  const auto file = make("f", "precious");
  std::array<std::byte, 3> memory{};
  for (const uint64_t offset : {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63}) {
    PENSTOCK_EXPECT_ERROR(file->write(offset, memory), kInvalid);
    EXPECT_EQ(*file->read(offset, memory), 0u);
    IoRequest request = IoRequest::write(offset, std::span<const std::byte>(memory), {});
    PENSTOCK_EXPECT_ERROR(run_all(*file, std::span(&request, 1)), kInvalid);
  }
  EXPECT_EQ(contents("f"), "precious");
}

}  // namespace
}  // namespace penstock::io
