#include "meta/reading.h"

#include <fmt/core.h>

#include <cerrno>

#include "meta/entry_rows.h"
#include "meta/extent_rows.h"
#include "meta/inode_rows.h"
#include "meta/volume_rows.h"
#include "meta/xattr_rows.h"

namespace penstock::meta {

Result<void> check_volume(const Volume& volume) {
  if (!volume.removed) return {};
  return posix_error(ENOENT, fmt::format("the volume {}", volume.settings.name));
}

Result<void> Reading::check_there() const {
  PENSTOCK_TRY(check_volume(*volume_));
  if (version_ < volume_->horizon) return no_version(version_);
  return {};
}

template <typename Body>
auto Reading::read(Body body) -> decltype(body()) {
  return core_->read([&]() -> decltype(body()) {
    PENSTOCK_TRY(check_there());
    return body();
  });
}

Result<Inode> Reading::inode(Ino ino) {
  return read([&]() -> Result<Inode> {
    const InodeRow row = PENSTOCK_TRY(load_inode(*core_, volume_->id, ino, version_));
    return Inode(row);
  });
}

Result<std::optional<InodeRow>> Reading::find(Ino directory, std::string_view name) {
  const VolumeId volume = volume_->id;
  if (version_ == kLive) return find_named(*core_, volume, directory, name);
  const std::optional<EntryRow> entry =
      PENSTOCK_TRY(find_entry(*core_, volume, directory, name, version_));
  if (!entry) return std::optional<InodeRow>();
  return find_inode(*core_, volume, entry->ino, version_);
}

Result<Inode> Reading::look_up(Ino directory, std::string_view name) {
  PENSTOCK_TRY(check_name(name));
  const VolumeId volume = volume_->id;
  if (name == "." || name == "..") {
    const InodeRow row = PENSTOCK_TRY(load_directory(*core_, volume, directory, version_));
    if (name == ".") return Inode(row);
    const InodeRow parent = PENSTOCK_TRY(load_inode(*core_, volume, row.parent, version_));
    return Inode(parent);
  }
  const std::optional<InodeRow> found = PENSTOCK_TRY(find(directory, name));
  if (found) return Inode(*found);
  // Only a directory can miss a name.
  PENSTOCK_TRY(load_directory(*core_, volume, directory, version_));
  return posix_error(ENOENT, name);
}

Result<Inode> Reading::lookup(Ino directory, std::string_view name) {
  return read([&] { return look_up(directory, name); });
}

Result<std::vector<Entry>> Reading::list(Ino directory, uint64_t cookie, size_t count) {
  return read([&]() -> Result<std::vector<Entry>> {
    PENSTOCK_TRY(load_directory(*core_, volume_->id, directory, version_));
    return list_entries(*core_, volume_->id, directory, version_,
                        std::min<uint64_t>(cookie, INT64_MAX), count);
  });
}

uint64_t Reading::last_cookie() {
  const std::lock_guard turn(core_->mutex());
  return core_->counters().cookie - 1;
}

Result<std::vector<Entry>> Reading::list_names(Ino directory, std::string_view from, size_t count) {
  return read([&]() -> Result<std::vector<Entry>> {
    PENSTOCK_TRY(load_directory(*core_, volume_->id, directory, version_));
    return list_entries_by_name(*core_, volume_->id, directory, version_, from, count);
  });
}

Result<std::string> Reading::symlink(Ino ino) {
  return read([&] { return read_target(*core_, volume_->id, ino, version_); });
}

Result<std::vector<Extent>> Reading::extents(Ino ino, uint64_t offset, uint64_t length) {
  return read([&]() -> Result<std::vector<Extent>> {
    auto found =
        PENSTOCK_TRY(read_extents(*core_, volume_->id, ino, version_, Range::of(offset, length)));
    // Whatever has one is there.
    if (found.empty()) PENSTOCK_TRY(load_inode(*core_, volume_->id, ino, version_));
    return found;
  });
}

Result<std::string> Reading::xattr(Ino ino, std::string_view name) {
  return read([&]() -> Result<std::string> {
    PENSTOCK_TRY(load_inode(*core_, volume_->id, ino, version_));
    return read_xattr(*core_, volume_->id, ino, name, version_);
  });
}

Result<std::vector<std::string>> Reading::xattrs(Ino ino) {
  return read([&]() -> Result<std::vector<std::string>> {
    PENSTOCK_TRY(load_inode(*core_, volume_->id, ino, version_));
    return list_xattrs(*core_, volume_->id, ino, version_);
  });
}

Result<Totals> Reading::totals() {
  return read([&]() -> Result<Totals> {
    if (version_ == kLive) return volume_->totals;
    return read_usage(core_->db(), volume_->id, version_);
  });
}

namespace {

class PastView : public View {
 public:
  PastView(std::shared_ptr<Core> core, std::shared_ptr<Volume> volume, Version version)
      : reading_(std::move(core), std::move(volume), version), version_(version) {}

  Version version() const override { return version_; }
  Result<Inode> inode(Ino ino) override { return reading_.inode(ino); }
  Result<Inode> lookup(Ino directory, std::string_view name) override {
    return reading_.lookup(directory, name);
  }
  Result<std::vector<Entry>> list(Ino directory, uint64_t cookie, size_t count) override {
    return reading_.list(directory, cookie, count);
  }
  uint64_t last_cookie() override { return reading_.last_cookie(); }
  Result<std::vector<Entry>> list_names(Ino directory, std::string_view from,
                                        size_t count) override {
    return reading_.list_names(directory, from, count);
  }
  Result<std::string> symlink(Ino ino) override { return reading_.symlink(ino); }
  Result<std::vector<Extent>> extents(Ino ino, uint64_t offset, uint64_t length) override {
    return reading_.extents(ino, offset, length);
  }
  Result<std::string> xattr(Ino ino, std::string_view name) override {
    return reading_.xattr(ino, name);
  }
  Result<std::vector<std::string>> xattrs(Ino ino) override { return reading_.xattrs(ino); }
  Result<Totals> totals() override { return reading_.totals(); }

 private:
  Reading reading_;
  const Version version_;
};

}  // namespace

std::unique_ptr<View> make_past_view(std::shared_ptr<Core> core, std::shared_ptr<Volume> volume,
                                     Version version) {
  return std::make_unique<PastView>(std::move(core), std::move(volume), version);
}

}  // namespace penstock::meta
