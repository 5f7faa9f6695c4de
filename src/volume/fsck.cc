#include "volume/fsck.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::volume {

namespace {

constexpr int kFollowAttempts = 5;
constexpr size_t kEntriesAtOnce = 1'000;
constexpr uint64_t kBytesAtOnce = 256 * kMiB;  // Of a file whose extents are looked at together.

}  // namespace

Result<FsckReport> Fsck::run(const FsckOptions& options) {
  options_ = &options;
  report_ = {};
  for (std::string& what : PENSTOCK_TRY(database_.check())) add("", std::move(what));
  for (const std::string& name : PENSTOCK_TRY(database_.volumes())) {
    PENSTOCK_TRY(check_volume(name, options));
  }
  return std::move(report_);
}

void Fsck::add(const std::string& path, std::string what) {
  report_.findings.push_back({volume_, path, std::move(what)});
}

Result<void> Fsck::check_volume(const std::string& name, const FsckOptions& options) {
  volume_ = name;
  const std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_.open(name));
  // As it is now: what programs do meanwhile is neither missed nor taken for damage.
  const std::unique_ptr<meta::Pin> pin = PENSTOCK_TRY(pin_last());
  const std::unique_ptr<meta::View> view = PENSTOCK_TRY(names->at(pin->version()));
  PENSTOCK_TRY(check_directory(*view, meta::kRoot, ""));
  if (options.progress) options.progress(report_.files, report_.bytes);
  return {};
}

Result<void> Fsck::check_directory(meta::View& names, meta::Ino ino, const std::string& path) {
  uint64_t cookie = 0;
  while (true) {
    const auto entries = PENSTOCK_TRY(names.list(ino, cookie, kEntriesAtOnce));
    if (entries.empty()) return {};
    for (const meta::Entry& entry : entries) {
      if (options_->cancel.stop_requested()) {
        return make_error(ErrorCode::kCancelled, "the check was stopped");
      }
      const std::string there = path + "/" + entry.name;
      const Result<meta::Inode> inode = names.inode(entry.ino);
      if (!inode.ok()) {
        add(there, inode.error().detail);
      } else if (inode->is_directory()) {
        PENSTOCK_TRY(check_directory(names, entry.ino, there));
      } else if (S_ISREG(inode->mode)) {
        PENSTOCK_TRY(check_file(names, *inode, there));
      }
    }
    cookie = entries.back().cookie;
  }
}

Result<void> Fsck::check_file(meta::View& names, const meta::Inode& inode,
                              const std::string& path) {
  ++report_.files;
  for (uint64_t at = 0; at < inode.size;) {
    const uint64_t length = std::min(kBytesAtOnce, inode.size - at);
    const Result<std::vector<meta::Extent>> extents = names.extents(inode.ino, at, length);
    if (!extents.ok()) {
      add(path, extents.error().to_string());
      break;
    }
    for (const meta::Extent& extent : *extents) {
      if (extent.chunk == meta::kZeros) continue;
      if (const auto wrong = follow(names, inode.ino, extent)) {
        add(path, fmt::format("{} bytes at {}: {}", extent.length, extent.offset, *wrong));
      }
    }
    at += length;
  }
  if (options_->progress) options_->progress(report_.files, report_.bytes);
  return {};
}

// The version before goes with a commit, unless it is held in time.
Result<std::unique_ptr<meta::Pin>> Fsck::pin_last() {
  Result<std::unique_ptr<meta::Pin>> pin = database_.pin(database_.last_version());
  for (int attempt = 1; attempt < kFollowAttempts && !pin.ok(); ++attempt) {
    if (pin.error().code != ErrorCode::kNotFound) break;
    pin = database_.pin(database_.last_version());
  }
  return pin;
}

std::optional<std::string> Fsck::follow(meta::View& names, meta::Ino ino,
                                        const meta::Extent& extent) {
  meta::Extent at = extent;
  for (int attempt = 1;; ++attempt) {
    const std::optional<std::string> wrong = look_at(at);
    if (!wrong || attempt == kFollowAttempts) return wrong;
    const auto now = names.extents(ino, extent.offset, extent.length);
    if (!now.ok()) return wrong;
    const auto same = std::ranges::find(*now, extent.offset, &meta::Extent::offset);
    if (same == now->end() || same->place == at.place) return wrong;
    at = *same;
    chunks_.erase(at.chunk);
  }
}

const std::optional<std::string>& Fsck::look_at(const meta::Extent& extent) {
  const auto [at, is_new] = chunks_.try_emplace(extent.chunk);
  if (is_new) at->second = check_chunk(extent.place);
  return at->second;
}

std::optional<std::string> Fsck::check_chunk(const meta::Place& place) {
  if (!is_journal(place.object)) {
    const Result<uint64_t>& size = size_of(place.object);
    if (!size.ok()) return size.error().detail;
    if (*size < place.offset + place.stored) {
      return fmt::format("object '{}' has {} bytes, and should have {} at least",
                         object_key(space_, place.object), *size, place.offset + place.stored);
    }
  }
  if (!options_->read_content) return std::nullopt;
  std::vector<std::byte> raw(place.raw);
  const Result<void> read = reader_.read_chunk(place, raw);
  report_.bytes += place.raw;
  return read.ok() ? std::nullopt : std::optional(read.error().to_string());
}

const Result<uint64_t>& Fsck::size_of(meta::ObjectId object) {
  const auto found = sizes_.find(object);
  if (found != sizes_.end()) return found->second;
  const Result<store::ObjectInfo> info = store_.head(object_key(space_, object));
  return sizes_.emplace(object, info.ok() ? Result<uint64_t>(info->size) : info.error())
      .first->second;
}

}  // namespace penstock::volume
