// One volume of a host.
#pragma once

#include "volume/host.h"

namespace penstock::volume {

class VolumeImpl final : public Volume {
 public:
  VolumeImpl(std::shared_ptr<HostImpl> host, std::unique_ptr<meta::Namespace> names)
      : host_(std::move(host)), names_(std::move(names)), uuid_(names_->settings().uuid) {}

  VolumeUuid uuid() const override { return uuid_; }
  meta::View& names() override { return *names_; }
  meta::Settings settings() override { return names_->settings(); }
  Result<size_t> read(meta::Ino ino, uint64_t offset, std::span<std::byte> into) override {
    return host_->read(*names_, ino, offset, into);
  }
  Result<Pieces> read_pieces(meta::Ino ino, uint64_t offset,
                             std::span<std::byte> scratch) override {
    return host_->read_pieces(*names_, ino, offset, scratch);
  }
  void prefetch(meta::Ino ino, uint64_t offset, uint64_t length) override {
    host_->prefetch(*names_, ino, offset, length);
  }

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
  Result<meta::Inode> hold(meta::Ino ino) override;
  void let_go(meta::Ino ino, uint64_t times) override;
  Result<void> write(meta::Ino ino, uint64_t offset, std::span<const std::byte> bytes) override;
  Result<meta::Inode> punch(meta::Ino ino, uint64_t offset, uint64_t length, bool zeros) override;
  Result<meta::Inode> allocate(meta::Ino ino, uint64_t offset, uint64_t length, bool grow) override;
  Result<meta::Inode> copy_range(meta::Ino from, uint64_t from_offset, meta::Ino to,
                                 uint64_t to_offset, uint64_t length) override;
  Result<void> sync() override { return host_->sync(); }
  Result<std::unique_ptr<VolumeView>> at(meta::Version version) override;

 private:
  Result<meta::Inode> perform(Action action);
  // It may just have lost its last name.
  void note_removed(const meta::Inode& inode);
  void forget(meta::Ino ino);

  const std::shared_ptr<HostImpl> host_;
  const std::unique_ptr<meta::Namespace> names_;
  const VolumeUuid uuid_;

  struct Held {
    uint64_t times = 0;
    bool nameless = false;
  };
  std::mutex held_mutex_;
  std::unordered_map<meta::Ino, Held> held_;
};

// A version that does not change, kept while this lives.
class PastView final : public VolumeView {
 public:
  PastView(std::shared_ptr<HostImpl> host, const VolumeUuid& uuid, std::unique_ptr<meta::Pin> pin,
           std::unique_ptr<meta::View> view)
      : host_(std::move(host)), uuid_(uuid), pin_(std::move(pin)), view_(std::move(view)) {}

  VolumeUuid uuid() const override { return uuid_; }
  meta::View& names() override { return *view_; }
  Result<size_t> read(meta::Ino ino, uint64_t offset, std::span<std::byte> into) override {
    return host_->read(*view_, ino, offset, into);
  }
  Result<Pieces> read_pieces(meta::Ino ino, uint64_t offset,
                             std::span<std::byte> scratch) override {
    return host_->read_pieces(*view_, ino, offset, scratch);
  }
  void prefetch(meta::Ino ino, uint64_t offset, uint64_t length) override {
    host_->prefetch(*view_, ino, offset, length);
  }

 private:
  const std::shared_ptr<HostImpl> host_;
  const VolumeUuid uuid_;
  const std::unique_ptr<meta::Pin> pin_;
  const std::unique_ptr<meta::View> view_;
};

}  // namespace penstock::volume
