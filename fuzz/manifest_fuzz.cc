#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "penstock/frame.h"

// As it comes; and with the checksum that it should have, or nothing would ever get past that.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)checkpoint::parse_manifest(text);
  const std::string whole = fmt::format("{{\"penstock_checkpoint\":1,\"xxh3\":\"{:016x}\",\n{}",
                                        codec::hash_bytes(std::as_bytes(std::span(text))), text);
  const Result<checkpoint::Manifest> read = checkpoint::parse_manifest(whole);
  if (!read.ok()) return 0;
  // What was read is written as something that is read alike.
  const std::string again = checkpoint::manifest_text(*read);
  const Result<checkpoint::Manifest> second = checkpoint::parse_manifest(again);
  if (!second.ok() || checkpoint::manifest_text(*second) != again) __builtin_trap();
  return 0;
}
