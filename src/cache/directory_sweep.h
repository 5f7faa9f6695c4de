#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

// As CacheDirectory::sweep, of the cache at `root`, by member `self`.
Result<void> sweep_members(io::FileSystem& fs, const std::string& root, const std::string& self);

// The member whose file `name` is: of "PID-RANDOM-N" in tmp/; of "PID-RANDOM.log",
// "PID-RANDOM.N.log" and "PID-RANDOM.lock" in members/. Nothing when it is no such name.
std::optional<std::string> member_of_temporary(std::string_view name);
std::optional<std::string> member_of_log(std::string_view name);
std::optional<std::string> member_of_lock(std::string_view name);

}  // namespace penstock::cache
