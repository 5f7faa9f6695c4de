// A volume as it is now: what View reads, and all that changes it.
#pragma once

#include <memory>
#include <utility>

#include "meta/extent_rows.h"
#include "meta/inode_rows.h"
#include "meta/reading.h"
#include "penstock/meta.h"

namespace penstock::meta {

class SqliteNamespace : public Namespace {
 public:
  SqliteNamespace(std::shared_ptr<Core> core, std::shared_ptr<Volume> volume)
      : core_(std::move(core)), volume_(std::move(volume)), reading_(core_, volume_, kLive) {}

  Version version() const override { return kLive; }
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

  Settings settings() override;
  Result<void> set_settings(const Settings& settings) override;

  Result<Inode> create(Ino parent, std::string_view name, const NewInode& inode, Time now) override;
  Result<Inode> link(Ino ino, Ino parent, std::string_view name, Time now) override;
  Result<Removed> unlink(Ino parent, std::string_view name, Time now) override;
  Result<Removed> remove_directory(Ino parent, std::string_view name, Time now) override;
  Result<Renamed> rename(Ino parent, std::string_view name, Ino new_parent,
                         std::string_view new_name, Rename mode, Time now) override;
  Result<Inode> change(Ino ino, const Changes& changes, Time now) override;
  Result<void> set_xattr(Ino ino, std::string_view name, std::string_view value, XattrMode mode,
                         Time now) override;
  Result<void> remove_xattr(Ino ino, std::string_view name, Time now) override;
  Result<void> forget(Ino ino) override;
  Result<std::vector<Ino>> nameless() override;

  Result<Inode> write(Ino ino, uint64_t offset, std::span<const Place> chunks, Time now) override;
  Result<Inode> punch(Ino ino, uint64_t offset, uint64_t length, bool zeros, Time now) override;
  Result<Inode> allocate(Ino ino, uint64_t offset, uint64_t length, bool grow, Time now) override;
  Result<Inode> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset,
                           uint64_t length, Time now) override;
  Result<void> merge(Ino ino, std::span<const Extent> expected, const Place& chunk) override;

  Result<std::unique_ptr<View>> at(Version version) override;

 private:
  template <typename Body>
  auto changing(Body body) -> decltype(body()) {
    return core_->change([&]() -> decltype(body()) {
      PENSTOCK_TRY(check_volume(*volume_));
      return body();
    });
  }
  VolumeId id() const { return volume_->id; }

  // EEXIST, or ENOSPC, where no inode more fits in the quota.
  Result<void> check_room(Ino parent, std::string_view name);
  // With its number; not in the table yet.
  Result<InodeRow> new_row(const InodeRow& parent, const NewInode& wanted, Time now);
  Result<Removed> remove_name(Ino parent, std::string_view name, bool directory, Time now);
  // Where the content ends after a change of it. ENOSPC, EFBIG.
  Result<void> set_size(InodeRow& row, uint64_t size);
  Result<Inode> save_content(InodeRow& row, Time now);
  Result<Inode> apply(InodeRow& row, const Changes& changes, Time now);

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Volume> volume_;
  Reading reading_;
};

}  // namespace penstock::meta
