#include "mount/acl.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::mount {

namespace {

// struct posix_acl_xattr_header and _entry of linux/posix_acl_xattr.h, little-endian.
constexpr uint32_t kVersion = 2;
constexpr size_t kHeaderBytes = 4;
constexpr size_t kEntryBytes = 8;
constexpr uint32_t kNoId = UINT32_MAX;
constexpr uint16_t kAllPermissions = 7;

Error not_a_list() {
  return errno_error(EINVAL, "an access control list");
}

AclEntry* find(Acl& acl, uint16_t tag) {
  const auto found = std::ranges::find(acl, tag, &AclEntry::tag);
  return found == acl.end() ? nullptr : &*found;
}

const AclEntry* find(const Acl& acl, uint16_t tag) {
  const auto found = std::ranges::find(acl, tag, &AclEntry::tag);
  return found == acl.end() ? nullptr : &*found;
}

bool is_named(const AclEntry& entry) {
  return entry.tag == kAclUser || entry.tag == kAclGroup;
}

uint16_t permissions_of(const Acl& acl, uint16_t tag) {
  const AclEntry* const entry = find(acl, tag);
  return entry == nullptr ? 0 : entry->permissions;
}

// The group bits of the mode are the mask, where there is one.
uint16_t group_class(const Acl& acl) {
  return permissions_of(acl, find(acl, kAclMask) != nullptr ? kAclMask : kAclGroupOwner);
}

Result<void> check(const Acl& acl) {
  for (const uint16_t tag : {kAclOwner, kAclGroupOwner, kAclOther, kAclMask}) {
    const auto count = std::ranges::count(acl, tag, &AclEntry::tag);
    if (count > 1 || (count == 0 && tag != kAclMask)) return not_a_list();
  }
  if (std::ranges::any_of(acl, is_named) && find(acl, kAclMask) == nullptr) return not_a_list();
  return {};
}

}  // namespace

Result<Acl> parse_acl(std::string_view value) {
  if (value.size() < kHeaderBytes || (value.size() - kHeaderBytes) % kEntryBytes != 0) {
    return not_a_list();
  }
  uint32_t version = 0;
  std::memcpy(&version, value.data(), sizeof version);
  if (le32toh(version) != kVersion) return not_a_list();
  Acl acl;
  for (size_t at = kHeaderBytes; at < value.size(); at += kEntryBytes) {
    AclEntry entry;
    std::memcpy(&entry.tag, value.data() + at, 2);
    std::memcpy(&entry.permissions, value.data() + at + 2, 2);
    std::memcpy(&entry.id, value.data() + at + 4, 4);
    entry.tag = le16toh(entry.tag);
    entry.permissions = le16toh(entry.permissions);
    entry.id = le32toh(entry.id);
    if (entry.permissions > kAllPermissions) return not_a_list();
    switch (entry.tag) {
      case kAclUser:
      case kAclGroup:
        break;
      case kAclOwner:
      case kAclGroupOwner:
      case kAclMask:
      case kAclOther:
        entry.id = kNoId;
        break;
      default:
        return not_a_list();
    }
    acl.push_back(entry);
  }
  PENSTOCK_TRY(check(acl));
  return acl;
}

std::string format_acl(const Acl& acl) {
  std::string value(kHeaderBytes + acl.size() * kEntryBytes, '\0');
  const uint32_t version = htole32(kVersion);
  std::memcpy(value.data(), &version, sizeof version);
  size_t at = kHeaderBytes;
  for (const AclEntry& entry : acl) {
    const uint16_t tag = htole16(entry.tag);
    const uint16_t permissions = htole16(entry.permissions);
    const uint32_t id = htole32(entry.id);
    std::memcpy(value.data() + at, &tag, 2);
    std::memcpy(value.data() + at + 2, &permissions, 2);
    std::memcpy(value.data() + at + 4, &id, 4);
    at += kEntryBytes;
  }
  return value;
}

bool is_minimal(const Acl& acl) {
  return find(acl, kAclMask) == nullptr && std::ranges::none_of(acl, is_named);
}

uint32_t mode_of(const Acl& acl, uint32_t mode) {
  const uint32_t bits = uint32_t{permissions_of(acl, kAclOwner)} << 6 |
                        uint32_t{group_class(acl)} << 3 | permissions_of(acl, kAclOther);
  return (mode & ~0777U) | bits;
}

Acl with_mode(Acl acl, uint32_t mode) {
  const auto set = [&](uint16_t tag, uint32_t bits) {
    if (AclEntry* const entry = find(acl, tag))
      entry->permissions = static_cast<uint16_t>(bits & 7);
  };
  set(kAclOwner, mode >> 6);
  set(find(acl, kAclMask) != nullptr ? kAclMask : kAclGroupOwner, mode >> 3);
  set(kAclOther, mode);
  return acl;
}

Inherited inherit(const Acl& from, uint32_t mode) {
  // No more than whoever makes it asked for, and no more than the directory gives.
  Acl acl = with_mode(from, mode & mode_of(from, mode));
  Inherited inherited{mode_of(acl, mode), std::nullopt};
  if (!is_minimal(acl)) inherited.access = std::move(acl);
  return inherited;
}

}  // namespace penstock::mount
