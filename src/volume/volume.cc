#include "volume/volume.h"

#include <algorithm>

#include "base/log.h"

namespace penstock::volume {

Result<meta::Inode> VolumeImpl::perform(Action action) {
  return PENSTOCK_TRY(host_->perform(*names_, uuid_, std::move(action))).inode;
}

Result<meta::Inode> VolumeImpl::create(meta::Ino parent, std::string_view name,
                                       const meta::NewInode& inode) {
  return perform(CreateOp{parent, std::string(name), inode});
}

Result<meta::Inode> VolumeImpl::link(meta::Ino ino, meta::Ino parent, std::string_view name) {
  return perform(LinkOp{ino, parent, std::string(name)});
}

Result<meta::Inode> VolumeImpl::unlink(meta::Ino parent, std::string_view name) {
  const meta::Inode gone =
      PENSTOCK_TRY(perform(UnlinkOp{parent, std::string(name), /*directory=*/false}));
  note_removed(gone);
  return gone;
}

Result<meta::Inode> VolumeImpl::remove_directory(meta::Ino parent, std::string_view name) {
  const meta::Inode gone =
      PENSTOCK_TRY(perform(UnlinkOp{parent, std::string(name), /*directory=*/true}));
  note_removed(gone);
  return gone;
}

Result<meta::Renamed> VolumeImpl::rename(meta::Ino parent, std::string_view name,
                                         meta::Ino new_parent, std::string_view new_name,
                                         meta::Rename mode) {
  Outcome outcome = PENSTOCK_TRY(host_->perform(
      *names_, uuid_,
      RenameOp{parent, std::string(name), new_parent, std::string(new_name), mode}));
  if (outcome.other) note_removed(*outcome.other);
  return meta::Renamed{std::move(outcome.inode), std::move(outcome.other)};
}

Result<meta::Inode> VolumeImpl::change(meta::Ino ino, const meta::Changes& changes) {
  return perform(ChangeOp{ino, changes});
}

Result<void> VolumeImpl::set_xattr(meta::Ino ino, std::string_view name, std::string_view value,
                                   meta::XattrMode mode) {
  PENSTOCK_TRY(perform(SetXattrOp{ino, std::string(name), std::string(value), mode}));
  return {};
}

Result<void> VolumeImpl::remove_xattr(meta::Ino ino, std::string_view name) {
  PENSTOCK_TRY(perform(RemoveXattrOp{ino, std::string(name)}));
  return {};
}

Result<meta::Inode> VolumeImpl::hold(meta::Ino ino) {
  // Held before it is looked at: it cannot go in between.
  {
    const std::lock_guard lock(held_mutex_);
    ++held_[ino].times;
  }
  Result<meta::Inode> inode = names_->inode(ino);
  if (!inode.ok()) let_go(ino, 1);
  return inode;
}

void VolumeImpl::let_go(meta::Ino ino, uint64_t times) {
  {
    const std::lock_guard lock(held_mutex_);
    const auto held = held_.find(ino);
    if (held == held_.end()) return;
    held->second.times -= std::min(held->second.times, times);
    if (held->second.times > 0) return;
    const bool nameless = held->second.nameless;
    held_.erase(held);
    if (!nameless) return;
  }
  forget(ino);
}

void VolumeImpl::note_removed(const meta::Inode& inode) {
  if (inode.links > 0) return;
  {
    const std::lock_guard lock(held_mutex_);
    const auto held = held_.find(inode.ino);
    if (held != held_.end()) {
      held->second.nameless = true;
      return;
    }
  }
  forget(inode.ino);
}

// Where that fails the volume has failed; the next owner collects it.
void VolumeImpl::forget(meta::Ino ino) {
  const Result<meta::Inode> done = perform(ForgetOp{ino});
  if (!done.ok()) {
    log_debug("an inode without a name stays for now", {{"error", done.error().to_string()}});
  }
}

Result<void> VolumeImpl::write(meta::Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), host_->piece_bytes()));
    PENSTOCK_TRY(host_->write(*names_, uuid_, ino, offset, piece));
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<meta::Inode> VolumeImpl::punch(meta::Ino ino, uint64_t offset, uint64_t length, bool zeros) {
  return perform(PunchOp{ino, offset, length, zeros});
}

Result<meta::Inode> VolumeImpl::allocate(meta::Ino ino, uint64_t offset, uint64_t length,
                                         bool grow) {
  return perform(AllocateOp{ino, offset, length, grow});
}

Result<meta::Inode> VolumeImpl::copy_range(meta::Ino from, uint64_t from_offset, meta::Ino to,
                                           uint64_t to_offset, uint64_t length) {
  return perform(CopyOp{from, from_offset, to, to_offset, length});
}

Result<std::unique_ptr<VolumeView>> VolumeImpl::at(meta::Version version) {
  std::unique_ptr<meta::Pin> pin = PENSTOCK_TRY(host_->database().pin(version));
  std::unique_ptr<meta::View> view = PENSTOCK_TRY(names_->at(version));
  return std::unique_ptr<VolumeView>(
      std::make_unique<PastView>(host_, uuid_, std::move(pin), std::move(view)));
}

}  // namespace penstock::volume
