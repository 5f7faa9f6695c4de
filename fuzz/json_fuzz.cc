// Whatever bytes come as a path, a zero and a document, reading ends with a value or an error.
#include <cstdint>

#include "penstock/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::decode;  // NOLINT: a small program
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return 0;
  const std::string_view path = text.substr(0, end);
  const auto json = std::as_bytes(std::span(text.substr(end + 1)));
  static JsonReader reader;
  static_cast<void>(reader.check(json).ok());
  static_cast<void>(reader.read_int(json, path).ok());
  static_cast<void>(reader.read_float(json, path).ok());
  static_cast<void>(reader.read_text(json, path).ok());
  return 0;
}
