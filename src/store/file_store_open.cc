// Opening a file store: is it one, may we, and what did others leave behind.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/log.h"
#include "store/file_store.h"

namespace penstock::store {

namespace {

constexpr std::string_view kMarkerName = "penstock-store";
constexpr std::string_view kMarkerTitle = "penstock file store";
constexpr std::string_view kMarker =
    "penstock file store\n"
    "version 1\n"
    "compatible 0\n"
    "read-only-compatible 0\n"
    "incompatible 0\n";

// The number in the line "NAME NUMBER" of a marker.
Result<uint64_t> marker_number(std::string_view marker, std::string_view name,
                               const std::string& path) {
  const size_t line = marker.find(fmt::format("\n{} ", name));
  uint64_t number = 0;
  if (line != std::string_view::npos) {
    const char* begin = marker.data() + line + name.size() + 2;
    const char* end = marker.data() + marker.size();
    const auto [stopped, failure] = std::from_chars(begin, end, number);
    if (failure == std::errc() && stopped != end && *stopped == '\n') return number;
  }
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{} is damaged: no line '{} NUMBER'", path, name));
}

Result<void> check_marker(std::string_view marker, const std::string& path, bool read_only) {
  if (!marker.starts_with(kMarkerTitle)) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is not that of a file store", path));
  }
  const uint64_t version = PENSTOCK_TRY(marker_number(marker, "version", path));
  const uint64_t incompatible = PENSTOCK_TRY(marker_number(marker, "incompatible", path));
  const uint64_t to_write = PENSTOCK_TRY(marker_number(marker, "read-only-compatible", path));
  if (version != 1 || incompatible != 0) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the file store of {} was made by a newer version of Penstock "
                                  "(version {}, features {:#x}); use that one",
                                  path, version, incompatible));
  }
  if (to_write != 0 && !read_only) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the file store of {} was made by a newer version of Penstock "
                                  "(features {:#x}); this one can only open it read-only",
                                  path, to_write));
  }
  return {};
}

// Whether nothing is in `root` but what making a store leaves when it is interrupted.
Result<bool> is_unused(io::FileSystem& fs, const std::string& root) {
  bool unused = true;
  const Result<void> listed = fs.list(root, [&](const io::DirectoryEntry& entry) {
    unused =
        entry.name == "lost+found" || entry.name.starts_with(fmt::format("{}.tmp-", kMarkerName));
    return unused;
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed.error();
  return unused;
}

// The marker is written last: where it is, the directory's own name is durable.
Result<void> make_file_store(io::FileSystem& fs, const std::string& root) {
  PENSTOCK_TRY(io::make_directories(fs, root));
  for (std::string at = root; at != "/" && at != ".";) {
    at = io::parent_path(at);
    const Result<void> synced = fs.sync_directory(at);
    // Where we may not read we have made nothing.
    if (!synced.ok() && synced.error().code != ErrorCode::kPermission) return synced;
  }
  return io::write_file_durably(fs, fmt::format("{}/{}", root, kMarkerName), kMarker);
}

// Requires nothing: a directory whose lock can be had has no owner any more.
void discard_if_abandoned(io::FileSystem& fs, const std::string& path) {
  const Result<std::unique_ptr<io::FileLock>> lock = fs.try_lock(path + "/lock");
  if (lock.ok()) (void)io::remove_tree(fs, path);
}

}  // namespace

Result<void> prepare_file_store(io::FileSystem& fs, const std::string& root, bool read_only) {
  const std::string path = fmt::format("{}/{}", root, kMarkerName);
  const Result<io::FileInfo> there = fs.stat(root);
  if (there.ok() && there->kind != io::FileKind::kDirectory) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is not a directory", root));
  }
  Result<std::string> marker = io::read_file(fs, path, 4 * kKiB);
  if (!marker.ok() && marker.error().code == ErrorCode::kNotFound && !read_only) {
    if (PENSTOCK_TRY(is_unused(fs, root))) return make_file_store(fs, root);
    marker = io::read_file(fs, path, 4 * kKiB);  // Another process may just have made it.
  }
  if (marker.ok()) return check_marker(*marker, path, read_only);
  if (marker.error().code != ErrorCode::kNotFound) return marker.error();
  if (read_only) {
    return make_error(ErrorCode::kNotFound, fmt::format("there is no file store at {}", root));
  }
  return make_error(ErrorCode::kInvalid,
                    fmt::format("{} is not empty and is not a file store (it has no file '{}'): "
                                "give an empty or a new directory, or tree:{} for files as they "
                                "are",
                                root, kMarkerName, root));
}

Result<void> discard_leftovers(io::FileSystem& fs, const std::string& root) {
  std::vector<std::string> names;
  PENSTOCK_TRY(fs.list(root, [&](const io::DirectoryEntry& entry) {
    names.push_back(entry.name);
    return true;
  }));
  const std::string boot = fs.boot_id();
  for (const std::string& name : names) {
    const std::string path = root + "/" + name;
    if (name.starts_with("tmp-")) discard_if_abandoned(fs, path);
    for (const std::string_view kind : {"pending-", "promoting-", "losses-"}) {
      if (!name.starts_with(kind) || name.substr(kind.size()) == boot) continue;
      const Result<void> removed = io::remove_tree(fs, path);
      if (removed.ok()) continue;
      log_warn("what was put before the machine went down and never flushed could not be removed",
               {{"path", path}, {"error", removed.error().to_string()}});
    }
  }
  return {};
}

Result<TemporaryDirectory> make_temporary_directory(io::FileSystem& fs, const std::string& root) {
  std::random_device device;
  Error last;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const std::string path = fmt::format("{}/tmp-{:08x}{:08x}", root, device(), device());
    PENSTOCK_TRY(fs.make_directory(path));
    Result<std::unique_ptr<io::FileLock>> lock = fs.try_lock(path + "/lock");
    // Between the two steps another opening may have taken it for abandoned.
    if (lock.ok() && fs.stat(path + "/lock").ok()) {
      return TemporaryDirectory{path, std::move(*lock)};
    }
    if (!lock.ok()) last = lock.error();
  }
  return last.with_context(fmt::format("cannot make a directory for temporary files in {}", root));
}

}  // namespace penstock::store
