#include "volume/host_files.h"

#include <fmt/core.h>

namespace penstock::volume {

namespace {

constexpr std::string_view kMarkerTitle = "Penstock volume\n";
constexpr uint64_t kMarkerBytesMax = 4096;

// The value of a line "NAME VALUE".
std::string_view line_of(std::string_view text, std::string_view name) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      return line.substr(name.size() + 1);
    }
    at = end + 1;
  }
  return {};
}

}  // namespace

Result<HostFiles> find_host(io::FileSystem& fs, const std::string& directory) {
  HostFiles files{directory, {}};
  const std::string path = files.marker();
  const Result<std::string> text = io::read_file(fs, path, kMarkerBytesMax);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return make_error(ErrorCode::kNotFound, fmt::format("there is no volume in {}", directory));
  }
  if (!text.ok()) return text.error();
  if (!text->starts_with(kMarkerTitle)) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{} is not that of a volume", path));
  }
  if (line_of(*text, "version") != "1" || line_of(*text, "incompatible") != "0" ||
      line_of(*text, "read-only") != "0") {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("the volume in {} was made by a newer version of Penstock", directory));
  }
  const std::optional<VolumeUuid> uuid = parse_uuid(line_of(*text, "uuid"));
  if (!uuid) return make_error(ErrorCode::kCorrupt, fmt::format("{} has no uuid", path));
  files.uuid = *uuid;
  return files;
}

Result<void> mark_host(io::FileSystem& fs, const HostFiles& files) {
  const std::string marker =
      fmt::format("{}version 1\ncompatible 0\nread-only 0\nincompatible 0\nuuid {}\n", kMarkerTitle,
                  uuid_text(files.uuid));
  return io::write_file_durably(fs, files.marker(), marker);
}

Result<std::unique_ptr<io::FileLock>> lock_host(io::FileSystem& fs, const std::string& directory) {
  Result<std::unique_ptr<io::FileLock>> lock = fs.try_lock(directory + "/owner.lock");
  if (!lock.ok() && lock.error().code == ErrorCode::kBusy) {
    return make_error(
        ErrorCode::kBusy,
        fmt::format("the volume in {} is in use by another process: a mount of it, or "
                    "a command that has not ended",
                    directory));
  }
  return lock;
}

}  // namespace penstock::volume
