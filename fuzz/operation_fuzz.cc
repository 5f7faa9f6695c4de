// Reads arbitrary bytes as an operation of a journal: never a crash, nothing read outside of them;
// and what is one is written as the same bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "volume/operation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto record = std::as_bytes(std::span(data, size));
  const Result<volume::Operation> operation = volume::decode_operation(record);
  if (!operation.ok()) return 0;
  const auto again = volume::decode_operation(volume::encode_operation(*operation));
  if (!again.ok() || volume::encode_operation(*again) != volume::encode_operation(*operation)) {
    std::abort();
  }
  return 0;
}
