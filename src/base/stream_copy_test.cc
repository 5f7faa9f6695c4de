#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock {
namespace {

// Every alignment of both sides, sizes on both sides of every threshold; nothing beside is touched.
TEST(StreamCopy, CopiesEveryByteAndNoOther) {
  std::mt19937_64 random(1);
  for (const size_t size : {0, 1, 63, 64, 4096, 65535, 65536, 65537, 131072 + 7, 300000}) {
    for (const size_t shift : {0, 1, 15, 16, 33, 63}) {
      std::vector<std::byte> from(size + 64);
      for (std::byte& byte : from) byte = static_cast<std::byte>(random());
      std::vector<std::byte> to(size + 192, std::byte{0xAA});
      const size_t at = 64 + random() % 64;
      stream_copy(to.data() + at, from.data() + shift, size);
      for (size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= at && i < at + size;
        ASSERT_EQ(to[i], inside ? from[shift + i - at] : std::byte{0xAA}) << size << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
