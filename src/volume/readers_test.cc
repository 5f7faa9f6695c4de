// How content comes back: in pieces, by many readers at once, and ahead of them.
#include <random>

#include "store/counting_store.h"
#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;

HostOptions reading_options(io::FileSystem& fs) {
  HostOptions options = quiet_options(fs);
  options.segment_bytes = 8 * kMiB;
  options.writeback.journal_bytes = 256 * kMiB;
  return options;
}

Bytes joined(const Pieces& pieces) {
  Bytes bytes;
  for (const auto piece : pieces.spans) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

TEST(Readers, PiecesAreWhatWasWrittenWhereverTheyLie) {
  MemoryFileSystem fs;
  const auto host = *create_host(kHostPath, {.name = "v"}, reading_options(fs));
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  Bytes bytes = random_bytes(3 * kMiB, 1);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  // In an object, a hole, zeros, and in the journal, one behind the other.
  ASSERT_THAT(volume->punch(file, 300'000, 100'000, /*zeros=*/false), IsOk());
  ASSERT_THAT(volume->punch(file, 500'000, 50'000, /*zeros=*/true), IsOk());
  const Bytes late = random_bytes(70'000, 2);
  ASSERT_THAT(volume->write(file, 600'000, late), IsOk());
  std::fill_n(bytes.begin() + 300'000, 100'000, std::byte{0});
  std::fill_n(bytes.begin() + 500'000, 50'000, std::byte{0});
  std::ranges::copy(late, bytes.begin() + 600'000);
  Bytes scratch(kMiB);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{123'457}, 2 * kMiB + 5}) {
    const auto pieces = volume->read_pieces(file, offset, scratch);
    ASSERT_THAT(pieces, IsOk());
    const size_t wanted = std::min<size_t>(kMiB, bytes.size() - offset);
    EXPECT_EQ(pieces->bytes, wanted);
    const auto expected = std::span(bytes).subspan(offset, wanted);
    EXPECT_TRUE(std::ranges::equal(joined(*pieces), expected)) << offset;
  }
}

TEST(Readers, ManyShareLittleMemory) {
  MemoryFileSystem fs;
  const auto host = *create_host(kHostPath, {.name = "v"}, reading_options(fs));
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes bytes = random_bytes(100 * kMiB, 3);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  std::vector<std::jthread> readers;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      Bytes scratch(kMiB);
      for (int i = 0; i < 6; ++i) {
        const uint64_t offset = random() % (bytes.size() - kMiB);
        volume->prefetch(file, offset, 4 * kMiB);
        const auto pieces = volume->read_pieces(file, offset, scratch);
        ASSERT_THAT(pieces, IsOk());
        EXPECT_TRUE(std::ranges::equal(joined(*pieces), std::span(bytes).subspan(offset, kMiB)));
      }
    });
  }
  readers.clear();
  EXPECT_LE(host->status()->memory_bytes, 64 * kMiB);
}

TEST(Readers, SmallFilesThatLieTogetherAreLoadedTogether) {
  MemoryFileSystem fs;
  constexpr int kFiles = 400;
  constexpr size_t kFileBytes = 10'000;
  const auto content = [](int i) { return random_bytes(kFileBytes, static_cast<uint64_t>(i) + 1); };
  {
    const auto host = *create_host(kHostPath, {.name = "v"}, reading_options(fs));
    const auto volume = *host->open("v");
    for (int i = 0; i < kFiles; ++i) {
      const meta::Ino file = make_file(*volume, fmt::format("{:03}", i));
      ASSERT_THAT(volume->write(file, 0, content(i)), IsOk());
    }
    ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  }
  store::CountingStore* counting = nullptr;
  HostOptions options = reading_options(fs);
  options.wrap_store = [&](std::unique_ptr<store::ObjectStore> inner) {
    auto made = std::make_unique<store::CountingStore>(std::move(inner));
    counting = made.get();
    return std::unique_ptr<store::ObjectStore>(std::move(made));
  };
  const auto host = *open_host(kHostPath, options);
  const auto volume = *host->open("v");
  for (int i = 0; i < kFiles; ++i) {
    EXPECT_EQ(content_of(*volume, fmt::format("{:03}", i)), content(i)) << i;
  }
  EXPECT_LT(counting->counts(store::CallKind::kGet).calls, kFiles / 10);
}

}  // namespace
}  // namespace penstock::volume
