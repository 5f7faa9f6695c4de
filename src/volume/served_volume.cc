#include "volume/served_volume.h"

#include <sys/stat.h>

#include <array>

#include "volume/volume_listing.h"

namespace penstock::volume {

template <typename T>
Result<T> ServedVolume::told(Result<T> done, meta::Ino ino, bool content) {
  // Also where it failed: a write may have come half way.
  const Change change{.ino = ino, .content = content};
  tell(std::span(&change, 1));
  return done;
}

Result<meta::Inode> ServedVolume::create(meta::Ino parent, std::string_view name,
                                         const meta::NewInode& inode) {
  feed_->expect();
  const bool hidden = S_ISREG(inode.mode) && name.starts_with(kTemporaryPrefix);
  if (hidden) feed_->hide(uuid_, parent, name);
  Result<meta::Inode> made = volume_->create(parent, name, inode);
  if (!made.ok() && hidden) feed_->show(uuid_, parent, name);
  if (!made.ok() || hidden) return made;
  const Change change{.directory = parent, .name = std::string(name)};
  tell(std::span(&change, 1));
  return made;
}

Result<meta::Inode> ServedVolume::link(meta::Ino ino, meta::Ino parent, std::string_view name) {
  feed_->expect();
  Result<meta::Inode> done = volume_->link(ino, parent, name);
  if (!done.ok()) return done;
  const Change change{.directory = parent, .name = std::string(name), .ino = ino};
  tell(std::span(&change, 1));
  return done;
}

Result<meta::Inode> ServedVolume::removed(Result<meta::Inode> gone, meta::Ino parent,
                                          std::string_view name) {
  if (!gone.ok()) return gone;
  feed_->show(uuid_, parent, name);
  const Change change{.directory = parent, .name = std::string(name), .ino = gone->ino};
  tell(std::span(&change, 1));
  return gone;
}

Result<meta::Inode> ServedVolume::unlink(meta::Ino parent, std::string_view name) {
  feed_->expect();
  return removed(volume_->unlink(parent, name), parent, name);
}

Result<meta::Inode> ServedVolume::remove_directory(meta::Ino parent, std::string_view name) {
  feed_->expect();
  return removed(volume_->remove_directory(parent, name), parent, name);
}

Result<meta::Renamed> ServedVolume::rename(meta::Ino parent, std::string_view name,
                                           meta::Ino new_parent, std::string_view new_name,
                                           meta::Rename mode) {
  feed_->expect();
  Result<meta::Renamed> done = volume_->rename(parent, name, new_parent, new_name, mode);
  if (!done.ok()) return done;
  // The name under which it was put is gone: nobody can learn of it by that any more.
  feed_->show(uuid_, parent, name);
  const std::array<Change, 3> changes = {
      Change{.directory = parent, .name = std::string(name)},
      Change{.directory = new_parent, .name = std::string(new_name), .ino = done->moved.ino},
      Change{.ino = done->replaced ? done->replaced->ino : 0}};
  tell(changes);
  return done;
}

Result<meta::Inode> ServedVolume::change(meta::Ino ino, const meta::Changes& changes) {
  feed_->expect();
  return told(volume_->change(ino, changes), ino, changes.size.has_value());
}

Result<void> ServedVolume::set_xattr(meta::Ino ino, std::string_view name, std::string_view value,
                                     meta::XattrMode mode) {
  feed_->expect();
  return told(volume_->set_xattr(ino, name, value, mode), ino, false);
}

Result<void> ServedVolume::remove_xattr(meta::Ino ino, std::string_view name) {
  feed_->expect();
  return told(volume_->remove_xattr(ino, name), ino, false);
}

Result<void> ServedVolume::write(meta::Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
  feed_->expect();
  return told(volume_->write(ino, offset, bytes), ino, true);
}

Result<meta::Inode> ServedVolume::punch(meta::Ino ino, uint64_t offset, uint64_t length,
                                        bool zeros) {
  feed_->expect();
  return told(volume_->punch(ino, offset, length, zeros), ino, true);
}

Result<meta::Inode> ServedVolume::allocate(meta::Ino ino, uint64_t offset, uint64_t length,
                                           bool grow) {
  feed_->expect();
  return told(volume_->allocate(ino, offset, length, grow), ino, true);
}

Result<meta::Inode> ServedVolume::copy_range(meta::Ino from, uint64_t from_offset, meta::Ino to,
                                             uint64_t to_offset, uint64_t length) {
  feed_->expect();
  return told(volume_->copy_range(from, from_offset, to, to_offset, length), to, true);
}

}  // namespace penstock::volume
