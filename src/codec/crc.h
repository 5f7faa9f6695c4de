// The CRCs that other people's formats are checked by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::codec {

uint32_t crc32(std::span<const std::byte> bytes);   // As gzip's.
uint32_t crc32c(std::span<const std::byte> bytes);  // Castagnoli's.

}  // namespace penstock::codec
