#include "data/window_reader.h"

#include "data/sequential_reader.h"
#include "data/test_support.h"
#include "io/completion_thread.h"

namespace penstock::data {
namespace {

// A shard in memory, which counts what is read of it.
class TextFile final : public ShardFile {
 public:
  TextFile(std::string text, bool remote) : text_(std::move(text)), remote_(remote) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return text_.size(); }
  bool is_remote() const override { return remote_; }
  Result<void> read(uint64_t offset, std::span<std::byte> into) override {
    EXPECT_LE(offset + into.size(), text_.size());
    std::memcpy(into.data(), text_.data() + offset, into.size());
    bytes_read += into.size();
    if (fail_from <= offset + into.size()) return make_error(ErrorCode::kIo, "made to fail");
    return {};
  }
  void start_read(uint64_t offset, io::MemorySlice into, Done done) override {
    io::CompletionThread::Item item;
    item.done = [this, offset, into, done = std::move(done)](Result<size_t>) {
      done(read(offset, std::span(into.data, into.size)));
    };
    answers_.post(std::move(item));
  }

  std::atomic<uint64_t> bytes_read = 0;
  uint64_t fail_from = UINT64_MAX;

 private:
  const std::string name_ = "/shard";
  const std::string text_;
  const bool remote_;
  io::CompletionThread answers_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(WindowReader, GivesTheRightBytesWhereverOneJumps) {
  const std::string text = random_text(30 * kMiB, 1);
  for (const bool remote : {false, true}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      TextFile file(text, remote);
      std::mt19937_64 random(seed);
      std::atomic<uint64_t> progress = 0;
      WindowReader reader(file, {}, &progress);
      uint64_t at = 0;
      while (true) {
        const uint64_t jump = uint64_t{1} << (random() % 22);
        at += random() % 3 == 0 ? random() % jump : random() % 1000;
        const uint64_t length = random() % (random() % 50 == 0 ? kMiB : 600);
        if (at + length > text.size()) break;
        const auto bytes = reader.at(at, length);
        ASSERT_THAT(bytes, IsOk());
        ASSERT_EQ(text_of(*bytes), std::string_view(text).substr(at, length)) << seed << " " << at;
        at += length;
      }
      reader.finish();
      EXPECT_EQ(progress, text.size());
    }
  }
}

TEST(WindowReader, SkipsWhatIsFarAndReadsOnceWhatIsClose) {
  const std::string text = random_text(32 * kMiB, 1);
  TextFile far(text, false);
  WindowReader skipping(far, {});
  for (uint64_t at = 0; at < text.size(); at += 2 * kMiB) ASSERT_THAT(skipping.at(at, 512), IsOk());
  EXPECT_LT(far.bytes_read, kMiB);

  for (const bool remote : {false, true}) {
    TextFile close(text, remote);
    WindowReader reading(close, {});
    for (uint64_t at = 0; at + 512 <= text.size(); at += 10'000)
      ASSERT_THAT(reading.at(at, 512), IsOk());
    EXPECT_LE(close.bytes_read, text.size());
  }
}

TEST(WindowReader, ErrorsComeThrough) {
  for (const bool remote : {false, true}) {
    TextFile file(random_text(20 * kMiB, 1), remote);
    file.fail_from = 12 * kMiB;
    WindowReader reader(file, {});
    uint64_t at = 0;
    Result<std::span<const std::byte>> bytes = reader.at(0, 1);
    for (; bytes.ok() && at < file.size(); at += 1000) bytes = reader.at(at, 500);
    EXPECT_THAT(bytes, FailsWith(ErrorCode::kIo));
    EXPECT_GT(at, 2 * kMiB);
  }
}

TEST(WindowReader, CanBeCancelled) {
  TextFile file(random_text(kMiB, 1), false);
  std::stop_source stop;
  WindowReader reader(file, stop.get_token());
  ASSERT_THAT(reader.at(0, 100), IsOk());
  stop.request_stop();
  EXPECT_THAT(reader.at(kMiB - 100, 100), FailsWith(ErrorCode::kCancelled));
}

Result<std::string> read_through(const std::string& stored) {
  TextFile file(stored, false);
  WindowReader window(file, {});
  const auto first = PENSTOCK_TRY(window.at(0, std::min<size_t>(stored.size(), 12)));
  const Compression compression = PENSTOCK_TRY(detect_compression(first));
  const auto reader = PENSTOCK_TRY(make_sequential_reader(window, compression));
  std::mt19937_64 random(stored.size());
  std::string text;
  while (true) {
    std::string piece(1 + random() % 100'000, '\0');
    const size_t got = PENSTOCK_TRY(reader->read(std::as_writable_bytes(std::span(piece))));
    text += piece.substr(0, got);
    EXPECT_EQ(reader->offset(), text.size());
    if (got < piece.size()) return text;
  }
}

TEST(SequentialReader, PlainGzipAndZstd) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}, size_t{3'000'000}}) {
    // Half of it is random and half of it compresses well.
    const std::string text = random_text(size / 2, 1) + std::string(size - size / 2, 'x');
    for (const std::string& stored :
         {text, gzip(text), zstd(text), gzip(text) + std::string(5000, '\0')}) {
      const auto read = read_through(stored);
      ASSERT_THAT(read, IsOk());
      ASSERT_EQ(*read, text);
    }
    for (const std::string& stored : {gzip(text) + gzip(text), zstd(text) + zstd(text)}) {
      const auto read = read_through(stored);
      ASSERT_THAT(read, IsOk());
      ASSERT_EQ(*read, text + text);
    }
  }
}

TEST(SequentialReader, DamageIsNoticed) {
  const std::string text = random_text(5000, 1) + std::string(5000, 'x');
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    for (size_t size = 12; size < whole.size(); ++size)
      ASSERT_THAT(read_through(whole.substr(0, size)), FailsWith(ErrorCode::kCorrupt)) << size;
  }
  EXPECT_THAT(read_through(gzip(text) + "garbage"), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(read_through(zstd(text) + "garbage"), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(read_through(std::string("\xfd"
                                       "7zXZ\0 and more",
                                       15)),
              FailsWith(ErrorCode::kUnsupported));
}

}  // namespace
}  // namespace penstock::data
