#include "codec/crc.h"

#include <gtest/gtest.h>

#include "codec/test_data.h"

namespace penstock::codec {
namespace {

// By the definition, bit by bit.
uint32_t slow_crc(uint32_t reflected_polynomial, std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 1) != 0 ? crc >> 1 ^ reflected_polynomial : crc >> 1;
  }
  return ~crc;
}

TEST(Crc, CheckValuesOfTheStandards) {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(crc32(bytes), 0xCBF43926U);
  EXPECT_EQ(crc32c(bytes), 0xE3069283U);
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc, IsRightAtEveryLengthAndAlignment) {
  const Bytes data = make_data(Pattern::kRandom, 40000, 1);
  for (size_t size = 0; size <= 1100; ++size) {
    const auto part = std::span(data).subspan(size % 17, size);
    ASSERT_EQ(crc32(part), slow_crc(0xEDB88320, part)) << size;
    ASSERT_EQ(crc32c(part), slow_crc(0x82F63B78, part)) << size;
  }
  for (const size_t size : {4096u, 8193u, 39983u}) {
    const auto part = std::span(data).subspan(17, size);
    ASSERT_EQ(crc32(part), slow_crc(0xEDB88320, part)) << size;
    ASSERT_EQ(crc32c(part), slow_crc(0x82F63B78, part)) << size;
  }
}

}  // namespace
}  // namespace penstock::codec
