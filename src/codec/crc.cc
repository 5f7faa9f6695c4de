#include "codec/crc.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace penstock::codec {

uint32_t crc32(std::span<const std::byte> bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  constexpr size_t kStepMax = size_t{1} << 30;  // Its lengths are ints.
  uint32_t crc = 0xFFFFFFFF;
  while (!bytes.empty()) {
    const size_t step = std::min(bytes.size(), kStepMax);
    // It does not write, though its pointer would let it.
    auto* const at = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(at, static_cast<int>(step), crc);
    bytes = bytes.subspan(step);
  }
  return ~crc;
}

}  // namespace penstock::codec
