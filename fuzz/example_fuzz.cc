// Whatever bytes come as a tf.train.Example, every name it lists can be asked for, and bytes lie
// inside of it.
#include <cstdint>
#include <cstdlib>

#include "penstock/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::decode;  // NOLINT: a small program
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto names = example_feature_names(bytes);
  if (!names.ok()) return 0;
  for (const std::string& name : *names) {
    const auto feature = read_example_feature(bytes, name);
    if (!feature.ok()) {
      if (feature.error().code == penstock::ErrorCode::kNotFound) std::abort();
      continue;
    }
    for (const auto value : feature->bytes) {
      if (value.empty()) continue;
      if (value.data() < bytes.data() || value.data() + value.size() > bytes.data() + size) {
        std::abort();
      }
    }
  }
  return 0;
}
