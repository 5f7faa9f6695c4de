// The bytes that go over the control socket of a volume (docs/formats/control-socket.md).
//
// A frame is a header, a body (numbers and texts) and a payload (bytes of files). Whoever decodes
// takes nothing for granted: lengths are bounded before memory is taken, and what does not decode to
// its last byte is refused.
// Threads: all functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::volume::control {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kHeaderBytes = 24;
inline constexpr uint32_t kBodyBytesMax = 8 * kMiB;
inline constexpr uint32_t kPayloadBytesMax = kMiB;

// Numbers on the wire: they stay.
enum class Kind : uint16_t {
  // Answers. To each request one of the first two, at last.
  kAnswer = 1,
  kError = 2,
  kProgress = 3,  // Of what takes long: a sign of life, and how far it is.
  kFindings = 4,  // Of a check: some, more may follow.
  // Requests about objects. kOpenStore says once for a connection of which volume.
  kOpenStore = 16,
  kGet = 17,
  kHead = 18,
  kList = 19,
  kRemove = 20,
  kCopy = 21,
  kFlush = 22,
  kPut = 23,      // Followed by any number of kPutData, and kPutEnd, which is what is answered.
  kPutData = 24,  // Its payload is the next bytes.
  kPutEnd = 25,
  // Requests about volumes.
  kVolumes = 48,
  kStatus = 49,
  kSetSettings = 50,
  kCommit = 51,
  kMakeSnapshot = 52,
  kRemoveSnapshot = 53,
  kClone = 54,
  kGc = 55,
  kFsck = 56,
  kDrain = 57,
  kMount = 58,
  kMetrics = 59,
};

struct Header {
  Kind kind = Kind::kAnswer;
  uint64_t request = 0;  // Chosen by who asks, repeated by who answers.
  uint32_t body_bytes = 0;
  uint32_t payload_bytes = 0;
};

std::array<std::byte, kHeaderBytes> encode_header(const Header& header);
// kCorrupt: no header, or lengths beyond the limits. kUnsupported: of another version.
Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

// An error as it travels.
std::vector<std::byte> encode_error(const Error& error);
// The error that was sent; kCorrupt when this is none.
Error decode_error(std::span<const std::byte> body);

// Whether `body` is one of that kind of request, and nothing else: what the fuzzer asks.
bool is_request_body(Kind kind, std::span<const std::byte> body);

}  // namespace penstock::volume::control
