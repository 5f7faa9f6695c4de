// POSIX access control lists, as the kernel passes them in attributes ("system.posix_acl_access"
// and "..._default"): a list is the mode bits said at greater length, and both must say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::mount {

inline constexpr std::string_view kAccessAcl = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

struct AclEntry {
  uint16_t tag = 0;
  uint16_t permissions = 0;  // rwx
  uint32_t id = 0;           // Of users and groups that are named.
  bool operator==(const AclEntry&) const = default;
};
using Acl = std::vector<AclEntry>;

inline constexpr uint16_t kAclOwner = 0x01;
inline constexpr uint16_t kAclUser = 0x02;
inline constexpr uint16_t kAclGroupOwner = 0x04;
inline constexpr uint16_t kAclGroup = 0x08;
inline constexpr uint16_t kAclMask = 0x10;
inline constexpr uint16_t kAclOther = 0x20;

// EINVAL for what is no list.
Result<Acl> parse_acl(std::string_view value);
std::string format_acl(const Acl& acl);

// Whether it says no more than nine mode bits can.
bool is_minimal(const Acl& acl);
// `mode` with the permissions of the list.
uint32_t mode_of(const Acl& acl, uint32_t mode);
// The list after a chmod.
Acl with_mode(Acl acl, uint32_t mode);

// What something new gets from the default list of its directory: its mode, and a list where that
// says more.
struct Inherited {
  uint32_t mode = 0;
  std::optional<Acl> access;
};
Inherited inherit(const Acl& from, uint32_t mode);

}  // namespace penstock::mount
