// Members of a tar, one after the other, as bytes for whoever keeps them. Plain ustar: every reader
// knows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "penstock/result.h"

namespace penstock::pack {

inline constexpr size_t kTarBlock = 512;
using TarHeader = std::array<std::byte, kTarBlock>;

// kInvalid for names above 100 bytes, or sizes above 8 GiB. The same bytes for the same arguments:
// owner 0, mode 0644, no time.
Result<TarHeader> make_tar_header(std::string_view name, uint64_t size);
// How many zeros follow `size` bytes of data.
constexpr size_t tar_padding(uint64_t size) {
  return static_cast<size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}
// Of a member with its header.
constexpr uint64_t tar_member_bytes(uint64_t size) {
  return kTarBlock + size + tar_padding(size);
}
// What ends a tar.
inline constexpr size_t kTarEnd = 2 * kTarBlock;

}  // namespace penstock::pack
