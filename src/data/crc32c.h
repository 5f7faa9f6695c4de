#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::data {

// CRC-32C (Castagnoli), by the CPU's own instruction where it has one.
uint32_t crc32c(std::span<const std::byte> bytes);

// As TFRecord stores it: so that the checksum of data with checksums in it stays a good one.
constexpr uint32_t mask_crc(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

}  // namespace penstock::data
