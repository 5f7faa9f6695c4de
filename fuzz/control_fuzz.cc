// Reads arbitrary bytes as a frame of the control socket: never a crash, nothing read outside of them,
// no memory beyond what they have; and a request that makes sense is written as the same bytes again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "volume/control_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::volume::control;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size < kHeaderBytes) return 0;
  const Result<Header> header = decode_header(bytes.first<kHeaderBytes>());
  const auto body = bytes.subspan(kHeaderBytes);
  // Also where the header is none: it is short, and would keep the fuzzer from all that follows.
  const auto kind = header.ok() ? header->kind : static_cast<Kind>(data[6]);
  (void)is_request_body(kind, body);
  // Answers.
  (void)decode_error(body);
  (void)decode<store::ListPage>(body);
  (void)decode<std::vector<store::RemoveFailure>>(body);
  (void)decode<volume::VolumeStatus>(body);
  (void)decode<std::vector<volume::Finding>>(body);
  (void)decode<MountAnswer>(body);
  if (header.ok()) {
    const Result<Header> again = decode_header(encode_header(*header));
    if (!again.ok() || again->request != header->request) std::abort();
  }
  return 0;
}
