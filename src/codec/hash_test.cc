#include "codec/hash_avx2.h"

#include <gtest/gtest.h>

#include <xxhash.h>
#include <random>

#include "codec/test_data.h"

namespace penstock::codec {
namespace {

// The plain library is the reference: whatever code the CPU makes us choose, stored checksums must
// be readable on every other machine.
TEST(Hash, EqualsTheLibraryAtEveryLengthAlignmentAndSeed) {
  const Bytes data = make_data(Pattern::kRandom, 70000, 1);
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{0x9e3779b97f4a7c15}}) {
    for (size_t size = 0; size <= 1300; ++size) {
      const auto part = std::span(data).subspan(size % 7, size);
      ASSERT_EQ(hash_bytes(part, seed), XXH3_64bits_withSeed(part.data(), size, seed)) << size;
    }
    for (size_t size : {4096u, 16384u, 65535u, 65536u, 69993u}) {
      const auto part = std::span(data).subspan(7, size);
      ASSERT_EQ(hash_bytes(part, seed), XXH3_64bits_withSeed(part.data(), size, seed)) << size;
    }
  }
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  const Bytes data = make_data(Pattern::kRandom, 70000, 1);
  std::mt19937 random(1);
  for (int n = 0; n < 300; ++n) {
    const auto part = std::span(data).first(random() % (n < 200 ? 600 : data.size()));
    Hasher hasher;
    for (size_t at = 0; at < part.size();) {
      const size_t size = std::min<size_t>(random() % 5000, part.size() - at);
      hasher.update(part.subspan(at, size));
      at += size;
    }
    ASSERT_EQ(hasher.digest(), hash_bytes(part)) << part.size();
    hasher.reset();
    ASSERT_EQ(hasher.digest(), hash_bytes({}));
  }
}

TEST(Hash, IsTheSameForEver) {
  EXPECT_EQ(hash_bytes({}), 0x2d06800538d394c2);  // Published with xxHash.
  EXPECT_EQ(hash_bytes(bytes_of("penstock")), 0xfb5a0b813e4c7327);
  EXPECT_EQ(hash_bytes(make_data(Pattern::kText, 3000, 1), 42), 0xe0a45f03acca2259);
}

}  // namespace
}  // namespace penstock::codec
