// The header of safetensors files: 8 bytes of length, JSON, spaces; then the data, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::checkpoint {

// Data begins at a multiple of it, so that direct transfers need no copy.
inline constexpr uint64_t kDataAlignment = 4096;

// Bits of one element; 0 for a name that is none.
uint32_t dtype_bits(std::string_view dtype);
// Bytes of a whole tensor. kInvalid where dtype or size make none.
Result<uint64_t> tensor_bytes(std::string_view dtype, std::span<const uint64_t> shape);

struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // From where the data starts.
  uint64_t end = 0;
};

// The first bytes of a file, up to the data. Requires tensors one after the other from 0.
std::string make_header(std::span<const HeaderTensor> tensors,
                        const std::map<std::string, std::string>& metadata);

struct Header {
  std::vector<HeaderTensor> tensors;  // By place.
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;
};
inline constexpr uint64_t kHeaderBytesMax = 100'000'000;

// Reads what follows the length; `file_bytes` is the size of the whole file. All that the format
// demands is checked: kCorrupt otherwise.
Result<Header> parse_header(std::string_view json, uint64_t file_bytes);

}  // namespace penstock::checkpoint
