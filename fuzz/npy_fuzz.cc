// Whatever bytes come as an array, what is called its data lies inside of them and is as large as
// its shape says.
#include <cstdint>
#include <cstdlib>

#include "penstock/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::decode;  // NOLINT: a small program
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto view = parse_npy(bytes);
  if (view.ok()) {
    uint64_t expected = dtype_bytes(view->dtype);
    for (const uint64_t dimension : view->shape) expected *= dimension;
    if (view->data.size() != expected || view->data.size() > size) std::abort();
    if (view->data.data() < bytes.data() || view->data.data() + expected > bytes.data() + size) {
      std::abort();
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_int(text).ok());
  static_cast<void>(parse_float(text).ok());
  return 0;
}
