#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  const std::string_view json(reinterpret_cast<const char*>(data) + 8, size - 8);
  // The size of the file as the first bytes say, and as would be right.
  uint64_t file_bytes = 0;
  for (size_t i = 0; i < 8; ++i) file_bytes |= uint64_t{data[i]} << (8 * i);
  (void)penstock::checkpoint::parse_header(json, file_bytes);
  const auto header = penstock::checkpoint::parse_header(json, size + file_bytes % 4096);
  if (!header.ok()) return 0;
  uint64_t end = 0;
  for (const auto& tensor : header->tensors) {
    if (tensor.begin != end) __builtin_trap();
    end = tensor.end;
  }
  if (header->data_start + end != size + file_bytes % 4096) __builtin_trap();
  return 0;
}
