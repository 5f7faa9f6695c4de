// The files of a file store: how keys become names, and what is in a file besides the object's
// bytes. docs/formats/file-store.md has the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/io.h"
#include "penstock/store.h"
#include "store/temporary_file.h"

namespace penstock::store {

// A key as a relative path: percent-escaped, and split into nested directories, whose names end
// with '~', where it is too long for one name. Different keys give different paths, none of which
// is a directory of another.
std::string key_to_path(std::string_view key);
// The key, or nothing when no key has this path.
std::optional<std::string> path_to_key(std::string_view path);
// Two hexadecimal digits of the key's hash.
std::string fan_out(std::string_view key);

// Calls `visit` with the path, relative to `directory`, of every file in it that key_to_path could
// have named, until it returns false. A directory that is not there has none. Returns whether the
// end was reached.
Result<bool> for_each_object_path(io::FileSystem& fs, const std::string& directory,
                                  const std::function<bool(const std::string&)>& visit);

// Follows the object's bytes in its file.
inline constexpr size_t kTrailerBytes = 48;
using VersionId = std::array<uint64_t, 2>;

// Completes an object's file, of which only the object's bytes are written, and closes it. Nothing
// is synced.
Result<ObjectInfo> seal_object(TemporaryFile& file, const std::string& key,
                               const VersionId& version);

// An object's file, open for reading. It stays whole whatever happens to its name.
struct OpenObject {
  std::unique_ptr<io::File> file;
  ObjectInfo info;
};
// kNotFound when there is no file; kCorrupt when it is not this key's object, whole.
Result<OpenObject> open_object(io::FileSystem& fs, const std::string& path, const std::string& key);

}  // namespace penstock::store
