#pragma once

#include <string_view>

#include "penstock/result.h"

namespace penstock::meta {

// What POSIX has a name for. `subject` is a name, whose bytes may be any, or what it is about.
Error posix_error(int os_errno, std::string_view subject);
// ENOENT of an inode, by its number.
Error no_inode(uint64_t ino);
// kNotFound of a version that purge() took, or that is not there yet.
Error no_version(uint64_t version);

}  // namespace penstock::meta
