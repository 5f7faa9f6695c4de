#include <fmt/core.h>

#include <vector>

#include "cache/directory_open.h"

namespace penstock::cache {

namespace {

// At most 256 names.
Result<std::vector<std::string>> parts_of(io::FileSystem& fs, const std::string& entries,
                                          const std::function<void(const std::string&)>& foreign) {
  std::vector<std::string> parts;
  PENSTOCK_TRY(fs.list(entries, [&](const io::DirectoryEntry& entry) {
    if (entry.kind == io::FileKind::kDirectory && is_part_name(entry.name)) {
      parts.push_back(entry.name);
    } else if (foreign) {
      foreign(fmt::format("{}/{}", entries, entry.name));
    }
    return true;
  }));
  return parts;
}

}  // namespace

Result<void> scan_entries(io::FileSystem& fs, const std::string& entries,
                          const std::function<bool(const EntryName&)>& visit,
                          const std::function<void(const std::string&)>& foreign) {
  bool go_on = true;
  for (const std::string& part : PENSTOCK_TRY(parts_of(fs, entries, foreign))) {
    const std::string directory = fmt::format("{}/{}", entries, part);
    const Result<void> listed = fs.list(directory, [&](const io::DirectoryEntry& entry) {
      const std::optional<EntryName> name =
          entry.kind == io::FileKind::kFile && entry.name.starts_with(part)
              ? EntryName::parse(entry.name)
              : std::nullopt;
      if (name) {
        go_on = visit(*name);
      } else if (foreign) {
        foreign(fmt::format("{}/{}", directory, entry.name));
      }
      return go_on;
    });
    if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed;
    if (!go_on) break;
  }
  return {};
}

}  // namespace penstock::cache
