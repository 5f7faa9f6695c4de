#include "cache/directory_open.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <span>

#include "penstock/units.h"

namespace penstock::cache {

namespace {

constexpr std::string_view kMarkerName = "penstock-cache";
constexpr std::string_view kMarkerTitle = "penstock cache\n";
constexpr std::string_view kMarker =
    "penstock cache\n"
    "version 1\n"
    "compatible 0\n"
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

// Whether nothing is in `root` but what making a cache leaves when it is interrupted.
Result<bool> is_unused(io::FileSystem& fs, const std::string& root) {
  bool unused = true;
  const std::string unfinished = fmt::format("{}.tmp-", kMarkerName);
  const Result<void> listed = fs.list(root, [&](const io::DirectoryEntry& entry) {
    unused = entry.name == "lost+found" || entry.name.starts_with(unfinished);
    return unused;
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed.error();
  return unused;
}

std::string_view name_of(io::FileKind kind) {
  if (kind == io::FileKind::kSymlink) return "a symbolic link";
  if (kind == io::FileKind::kDirectory) return "a directory";
  return kind == io::FileKind::kFile ? "a file" : "neither a file nor a directory";
}

// Whether it is there, as what it is in a cache. Nothing in one is a link: who followed it would
// write, and remove, what is somebody else's.
Result<bool> is_there(io::FileSystem& fs, const std::string& path, io::FileKind kind) {
  const Result<io::FileInfo> info = fs.stat_link(path);
  if (!info.ok() && info.error().code == ErrorCode::kNotFound) return false;
  if (!info.ok()) return info.error();
  if (info->kind == kind) return true;
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("{} is {}, and {} in a cache: the cache is not used before it is removed", path,
                  name_of(info->kind), name_of(kind)));
}

// Nothing when there is none.
Result<std::optional<std::string>> read_marker(io::FileSystem& fs, const std::string& path) {
  constexpr uint64_t kMarkerBytesMax = 4096;
  Result<std::string> marker = read_plain_file(fs, path, kMarkerBytesMax);
  if (marker.ok()) return std::optional(std::move(*marker));
  if (marker.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  if (marker.error().code == ErrorCode::kInvalid)
    PENSTOCK_TRY(is_there(fs, path, io::FileKind::kFile));
  if (marker.error().code != ErrorCode::kNoMemory) return marker.error();
  return make_error(ErrorCode::kInvalid, fmt::format("{} is too long for that of a cache", path));
}

// A cache inside another would be somebody else's files there.
Result<void> check_outside(io::FileSystem& fs, const std::string& root) {
  for (std::string up = root; up != "/" && up != ".";) {
    up = io::parent_path(up);
    const auto marker = read_marker(fs, fmt::format("{}/{}", up == "/" ? "" : up, kMarkerName));
    if (!marker.ok() || !*marker || !(*marker)->starts_with(kMarkerTitle)) continue;
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} lies inside the cache {}: give a directory outside of it", root, up));
  }
  return {};
}

// What is cached may be private, whoever may read the directory above: others are let in by chmod.
Result<void> make_root(io::FileSystem& fs, const std::string& root) {
  PENSTOCK_TRY(io::make_directories(fs, io::parent_path(root)));
  const Result<void> made = fs.make_directory(root, 0700);
  return !made.ok() && made.error().code == ErrorCode::kExists ? Result<void>() : made;
}

// The marker, which is made where nothing is.
Result<std::string> find_marker(io::FileSystem& fs, const std::string& root,
                                const std::string& path) {
  std::optional<std::string> marker = PENSTOCK_TRY(read_marker(fs, path));
  if (marker) return *marker;
  if (PENSTOCK_TRY(is_unused(fs, root))) {
    PENSTOCK_TRY(check_outside(fs, root));
    PENSTOCK_TRY(make_root(fs, root));
    const Result<void> made = io::write_file_durably(fs, path, kMarker);
    if (made.ok()) return std::string(kMarker);
    // One of the same number in another container has taken the same temporary name.
    if (made.error().code != ErrorCode::kNotFound) return made.error();
  }
  marker = PENSTOCK_TRY(read_marker(fs, path));  // Another process may just have made it.
  if (marker) return *marker;
  return make_error(ErrorCode::kInvalid,
                    fmt::format("{} is not empty and is not a cache (it has no file '{}'): give an "
                                "empty or a new directory",
                                root, kMarkerName));
}

Result<void> check_layout(io::FileSystem& fs, const std::string& root) {
  using io::FileKind;
  for (const auto& [name, kind] :
       {std::pair(kEntriesName, FileKind::kDirectory),
        std::pair(kTemporaryName, FileKind::kDirectory),
        std::pair(kMembersName, FileKind::kDirectory), std::pair("evictor.lock", FileKind::kFile),
        std::pair("state", FileKind::kFile), std::pair("index", FileKind::kFile)}) {
    PENSTOCK_TRY(is_there(fs, fmt::format("{}/{}", root, name), kind));
  }
  const std::string entries = fmt::format("{}/{}", root, kEntriesName);
  std::string link;
  const Result<void> listed = fs.list(entries, [&](const io::DirectoryEntry& entry) {
    if (entry.kind == FileKind::kSymlink && is_part_name(entry.name)) link = entry.name;
    return link.empty();
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed;
  if (link.empty()) return {};
  PENSTOCK_TRY(is_there(fs, fmt::format("{}/{}", entries, link), FileKind::kDirectory));
  return {};
}

// The marker's name is made durable before anything else is made, by whoever makes it: a power cut
// must not leave a directory that is not empty and has no marker.
Result<void> make_layout(io::FileSystem& fs, const std::string& root) {
  bool synced = false;
  for (const char* name : {kEntriesName, kTemporaryName, kMembersName}) {
    const std::string path = fmt::format("{}/{}", root, name);
    if (PENSTOCK_TRY(is_there(fs, path, io::FileKind::kDirectory))) continue;
    if (!synced) PENSTOCK_TRY(fs.sync_directory(root));
    synced = true;
    const Result<void> made = fs.make_directory(path);
    if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
  }
  return {};
}

}  // namespace

bool is_part_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return name.size() == 2 && name.find_first_not_of(kDigits) == std::string_view::npos;
}

Result<std::string> read_plain_file(io::FileSystem& fs, const std::string& path,
                                    uint64_t limit_bytes) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(fs.open(path, {.plain_only = true}));
  const io::FileInfo info = PENSTOCK_TRY(file->stat());
  if (info.size > limit_bytes) {
    return make_error(ErrorCode::kNoMemory,
                      fmt::format("{} has more than {}", path, format_size(limit_bytes)));
  }
  std::string text(info.size, '\0');
  text.resize(PENSTOCK_TRY(file->read(0, std::as_writable_bytes(std::span(text)))));
  return text;
}

Result<void> check_marker(std::string_view marker, const std::string& path) {
  if (!marker.starts_with(kMarkerTitle)) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is not that of a cache", path));
  }
  const uint64_t version = PENSTOCK_TRY(marker_number(marker, "version", path));
  const uint64_t incompatible = PENSTOCK_TRY(marker_number(marker, "incompatible", path));
  if (version == 1 && incompatible == 0) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the cache of {} was made by a newer version of Penstock (version "
                                "{}, features {:#x}); use that one, or another directory",
                                path, version, incompatible));
}

Result<void> prepare_directory(io::FileSystem& fs, const std::string& root, bool must_exist) {
  const Result<io::FileInfo> there = fs.stat(root);
  if (!there.ok() && there.error().code != ErrorCode::kNotFound) return there.error();
  if (there.ok() && there->kind != io::FileKind::kDirectory) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is not a directory", root));
  }
  const std::string path = fmt::format("{}/{}", root, kMarkerName);
  if (must_exist) {
    const std::optional<std::string> marker = PENSTOCK_TRY(read_marker(fs, path));
    if (!marker)
      return make_error(ErrorCode::kNotFound, fmt::format("there is no cache at {}", root));
    PENSTOCK_TRY(check_marker(*marker, path));
    return check_layout(fs, root);
  }
  const std::string marker = PENSTOCK_TRY(find_marker(fs, root, path));
  PENSTOCK_TRY(check_marker(marker, path));
  PENSTOCK_TRY(check_layout(fs, root));
  return make_layout(fs, root);
}

}  // namespace penstock::cache
