// A volume as other processes change it, through its owner: whatever they do is told to a feed.
#pragma once

#include <memory>

#include "penstock/volume.h"
#include "volume/change_feed.h"

namespace penstock::volume {

class ServedVolume final : public Volume {
 public:
  ServedVolume(std::shared_ptr<Volume> volume, std::shared_ptr<ChangeFeed> feed)
      : volume_(std::move(volume)), feed_(std::move(feed)), uuid_(volume_->uuid()) {}

  VolumeUuid uuid() const override { return uuid_; }
  meta::View& names() override { return volume_->names(); }
  Result<size_t> read(meta::Ino ino, uint64_t offset, std::span<std::byte> into) override {
    return volume_->read(ino, offset, into);
  }
  Result<Pieces> read_pieces(meta::Ino ino, uint64_t offset,
                             std::span<std::byte> scratch) override {
    return volume_->read_pieces(ino, offset, scratch);
  }
  void prefetch(meta::Ino ino, uint64_t offset, uint64_t length) override {
    volume_->prefetch(ino, offset, length);
  }
  meta::Settings settings() override { return volume_->settings(); }

  Result<meta::Inode> create(meta::Ino parent, std::string_view name,
                             const meta::NewInode& inode) override;
  Result<meta::Inode> link(meta::Ino ino, meta::Ino parent, std::string_view name) override;
  Result<meta::Inode> unlink(meta::Ino parent, std::string_view name) override;
  Result<meta::Inode> remove_directory(meta::Ino parent, std::string_view name) override;
  Result<meta::Renamed> rename(meta::Ino parent, std::string_view name, meta::Ino new_parent,
                               std::string_view new_name, meta::Rename mode) override;
  Result<meta::Inode> change(meta::Ino ino, const meta::Changes& changes) override;
  Result<void> set_xattr(meta::Ino ino, std::string_view name, std::string_view value,
                         meta::XattrMode mode) override;
  Result<void> remove_xattr(meta::Ino ino, std::string_view name) override;
  Result<meta::Inode> hold(meta::Ino ino) override { return volume_->hold(ino); }
  void let_go(meta::Ino ino, uint64_t times) override { volume_->let_go(ino, times); }
  Result<void> write(meta::Ino ino, uint64_t offset, std::span<const std::byte> bytes) override;
  Result<meta::Inode> punch(meta::Ino ino, uint64_t offset, uint64_t length, bool zeros) override;
  Result<meta::Inode> allocate(meta::Ino ino, uint64_t offset, uint64_t length, bool grow) override;
  Result<meta::Inode> copy_range(meta::Ino from, uint64_t from_offset, meta::Ino to,
                                 uint64_t to_offset, uint64_t length) override;
  Result<void> sync() override { return volume_->sync(); }
  Result<std::unique_ptr<VolumeView>> at(meta::Version version) override {
    return volume_->at(version);
  }

 private:
  void tell(std::span<const Change> changes) { feed_->tell(uuid_, changes); }
  // Of an inode; as it is.
  template <typename T>
  Result<T> told(Result<T> done, meta::Ino ino, bool content);
  Result<meta::Inode> removed(Result<meta::Inode> gone, meta::Ino parent, std::string_view name);

  const std::shared_ptr<Volume> volume_;
  const std::shared_ptr<ChangeFeed> feed_;
  const VolumeUuid uuid_;
};

}  // namespace penstock::volume
