#include "volume/recover_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace penstock::volume {

namespace {

constexpr size_t kEntriesAtOnce = 1'000;

}  // namespace

Result<std::unique_ptr<io::File>> RecoveredFiles::open(const Key& key) {
  Saved& saved = files_[key];
  if (saved.path.empty()) {
    const std::string folder = fmt::format("{}/inodes/{}", directory_, uuid_text(key.first));
    PENSTOCK_TRY(io::make_directories(fs_, folder));
    saved.path = fmt::format("{}/{}", folder, key.second);
  }
  return fs_.open(saved.path, {.access = io::Access::kReadWrite, .create = io::Create::kIfMissing});
}

Result<void> RecoveredFiles::resize(const Key& key, uint64_t size) {
  // A file of which nothing else is known has no content to be saved.
  if (!files_.contains(key)) return {};
  return PENSTOCK_TRY(open(key))->truncate(size);
}

Result<void> RecoveredFiles::zero(const Key& key, uint64_t offset, uint64_t length) {
  if (!files_.contains(key)) return {};
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(open(key));
  const uint64_t size = PENSTOCK_TRY(file->stat()).size;
  const std::vector<std::byte> zeros(kMiB);
  for (uint64_t at = offset; at < size && at - offset < length;) {
    const uint64_t step = std::min({zeros.size(), size - at, length - (at - offset)});
    PENSTOCK_TRY(file->write(at, std::span(zeros).first(step)));
    at += step;
  }
  return {};
}

Result<void> RecoveredFiles::apply(const Operation& operation, std::span<const std::byte> content) {
  if (const auto* write = std::get_if<WriteOp>(&operation.action)) {
    const auto file = PENSTOCK_TRY(open({operation.volume, write->ino}));
    bytes_ += content.size();
    return file->write(write->offset, content);
  }
  if (const auto* change = std::get_if<ChangeOp>(&operation.action)) {
    if (!change->changes.size) return {};
    return resize({operation.volume, change->ino}, *change->changes.size);
  }
  if (const auto* punch = std::get_if<PunchOp>(&operation.action)) {
    return zero({operation.volume, punch->ino}, punch->offset, punch->length);
  }
  return {};
}

Result<void> RecoveredFiles::name(const VolumeUuid& volume, const std::string& name,
                                  meta::View& view) {
  const bool any =
      std::ranges::any_of(files_, [&](const auto& file) { return file.first.first == volume; });
  if (!any) return {};
  return name_directory(volume, view, meta::kRoot, fmt::format("{}/files/{}", directory_, name));
}

Result<void> RecoveredFiles::name_directory(const VolumeUuid& volume, meta::View& view,
                                            meta::Ino ino, const std::string& path) {
  uint64_t cookie = 0;
  while (true) {
    const auto entries = PENSTOCK_TRY(view.list(ino, cookie, kEntriesAtOnce));
    if (entries.empty()) return {};
    for (const meta::Entry& entry : entries) {
      const std::string there = path + "/" + entry.name;
      if (S_ISDIR(entry.mode)) PENSTOCK_TRY(name_directory(volume, view, entry.ino, there));
      const auto saved = files_.find({volume, entry.ino});
      if (saved != files_.end()) PENSTOCK_TRY(give_name(saved->second, there));
    }
    cookie = entries.back().cookie;
  }
}

// One of them, where it has several.
Result<void> RecoveredFiles::give_name(Saved& saved, const std::string& path) {
  if (!saved.path.starts_with(directory_ + "/inodes/")) return {};
  PENSTOCK_TRY(io::make_directories(fs_, io::parent_path(path)));
  PENSTOCK_TRY(fs_.rename(saved.path, path));
  saved.path = path;
  return {};
}

Result<void> RecoveredFiles::sync() {
  return fs_.sync_file_system(directory_);
}

}  // namespace penstock::volume
