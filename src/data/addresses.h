// Addresses as people write them, before a store makes something of them.
// Threads: all functions are pure, but for make_path_absolute(), which asks where it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::data {

// The path in an address, without a '/' at its end; empty for addresses of another kind.
std::string path_of_address(const std::string& address);

// The same place by an absolute path: a store of a relative one follows no links, and does not know
// where it is. What is no relative path stays as it is.
Result<std::string> make_path_absolute(const std::string& address);

// What all keys of an address begin with, and its class folders do not: empty, or ending with '/'.
std::string root_of_address(const std::string& address);

// Whether one of the addresses, which may be patterns, is of this path.
bool is_named_by(const std::vector<std::string>& addresses, const std::string& path);

// A list of shards, as wids has them; and the address of a shard that it names `url`, which is beside
// the list unless it says otherwise.
bool is_wids_address(std::string_view address);
std::string wids_address(const std::string& list, const std::string& url);

}  // namespace penstock::data
