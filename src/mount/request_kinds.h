// The kinds of requests that the kernel sends: their names, and what belongs together.
#pragma once

#include <cstdint>
#include <span>

namespace penstock::mount {

struct RequestKind {
  uint32_t opcode = 0;
  const char* name = "";   // As in linux/fuse.h.
  const char* group = "";  // For metrics: to a program they are one thing.
};

// Opcodes are smaller than this, those of the kinds below and all that Linux has.
inline constexpr uint32_t kOpcodesMax = 64;
inline constexpr const char* kOtherRequests = "other";

std::span<const RequestKind> request_kinds();
const char* request_name(uint32_t opcode);

}  // namespace penstock::mount
