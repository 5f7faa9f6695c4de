#include <fmt/core.h>

#include <vector>

#include "cache/directory_open.h"

namespace penstock::cache {

namespace {

bool is_part(const io::DirectoryEntry& entry) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return entry.kind == io::FileKind::kDirectory && entry.name.size() == 2 &&
         entry.name.find_first_not_of(kDigits) == std::string::npos;
}

// At most 256 names.
Result<std::vector<std::string>> parts_of(io::FileSystem& fs, const std::string& entries,
                                          const std::function<void(const std::string&)>& foreign) {
  std::vector<std::string> parts;
  PENSTOCK_TRY(fs.list(entries, [&](const io::DirectoryEntry& entry) {
    if (is_part(entry)) {
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
