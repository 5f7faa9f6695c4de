#pragma once

#include <string_view>

#include "penstock/meta.h"
#include "penstock/result.h"

namespace penstock::mount {

// The errno that a program gets.
int errno_of(const Error& error);

// The same, and a line in the log where the program will only see EIO: what happened, to which
// inode. Ten lines at once, then one every ten seconds, which counts the others.
int report(const Error& error, std::string_view operation, meta::Ino ino);

}  // namespace penstock::mount
