#include "meta/renaming.h"

#include <cerrno>

#include "meta/sqlite_namespace.h"

namespace penstock::meta {

Result<InodeRow*> Renaming::parent(Ino ino) {
  InodeRow* row = PENSTOCK_TRY(inodes_.get(ino));
  PENSTOCK_TRY(check_parent(*row));
  return row;
}

Result<void> Renaming::load() {
  source_ = PENSTOCK_TRY(parent(from_.parent));
  destination_ = PENSTOCK_TRY(parent(to_.parent));
  const auto entry = PENSTOCK_TRY(find_entry(core_, volume_, from_.parent, from_.name, kLive));
  if (!entry) return posix_error(ENOENT, from_.name);
  entry_ = *entry;
  target_entry_ = PENSTOCK_TRY(find_entry(core_, volume_, to_.parent, to_.name, kLive));
  if (mode_ == Rename::kNoReplace && target_entry_) return posix_error(EEXIST, to_.name);
  if (mode_ == Rename::kExchange && !target_entry_) return posix_error(ENOENT, to_.name);
  moved_ = PENSTOCK_TRY(inodes_.get(entry_.ino));
  if (target_entry_) target_ = PENSTOCK_TRY(inodes_.get(target_entry_->ino));
  return {};
}

Result<void> Renaming::check_not_below(Ino directory, Ino top) const {
  for (Ino at = directory;;) {
    if (at == top) return posix_error(EINVAL, "a directory that would be in itself");
    if (at == kRoot) return {};
    const InodeRow row = PENSTOCK_TRY(load_inode(core_, volume_, at, kLive));
    at = row.parent;
  }
}

Result<void> Renaming::check() const {
  if (moved_->is_directory()) PENSTOCK_TRY(check_not_below(to_.parent, moved_->ino));
  if (target_ == nullptr) return {};
  if (mode_ == Rename::kExchange) {
    if (target_->is_directory()) return check_not_below(from_.parent, target_->ino);
    return {};
  }
  if (moved_->is_directory() && !target_->is_directory()) return posix_error(ENOTDIR, to_.name);
  if (!moved_->is_directory() && target_->is_directory()) return posix_error(EISDIR, to_.name);
  if (target_->is_directory() && target_->size != 0) return posix_error(ENOTEMPTY, to_.name);
  return {};
}

// So many names, and directories, go from the one directory to the other.
void Renaming::move_links(int entries, int directories) {
  source_->size -= static_cast<uint64_t>(entries);
  destination_->size += static_cast<uint64_t>(entries);
  source_->links -= static_cast<uint32_t>(directories);
  destination_->links += static_cast<uint32_t>(directories);
}

// Where a name that is listed stays, whoever lists sees it once; and what is renamed as it is listed
// does not come again at the end, so that a listing ends.
uint64_t Renaming::new_cookie() const {
  if (target_entry_) return target_entry_->cookie;
  return from_.parent == to_.parent ? entry_.cookie : 0;
}

Result<void> Renaming::replace() {
  PENSTOCK_TRY(end_entry(core_, volume_, from_.parent, from_.name, entry_));
  if (target_ != nullptr) {
    PENSTOCK_TRY(end_entry(core_, volume_, to_.parent, to_.name, *target_entry_));
    destination_->size -= 1;
    if (target_->is_directory()) destination_->links -= 1;
    target_->links = target_->is_directory() ? 0 : target_->links - 1;
  }
  PENSTOCK_TRY(add_entry(core_, volume_, to_.parent, to_.name, *moved_, new_cookie()));
  move_links(1, moved_->is_directory() ? 1 : 0);
  return {};
}

Result<void> Renaming::exchange() {
  PENSTOCK_TRY(end_entry(core_, volume_, from_.parent, from_.name, entry_));
  PENSTOCK_TRY(end_entry(core_, volume_, to_.parent, to_.name, *target_entry_));
  PENSTOCK_TRY(add_entry(core_, volume_, from_.parent, from_.name, *target_, entry_.cookie));
  PENSTOCK_TRY(add_entry(core_, volume_, to_.parent, to_.name, *moved_, target_entry_->cookie));
  move_links(0, (moved_->is_directory() ? 1 : 0) - (target_->is_directory() ? 1 : 0));
  if (target_->is_directory()) target_->parent = from_.parent;
  return {};
}

Result<Renamed> Renaming::run() {
  PENSTOCK_TRY(load());
  // Two names of one file: POSIX wants nothing done.
  if (target_ == moved_) return Renamed{*moved_, *moved_};
  PENSTOCK_TRY(check());
  PENSTOCK_TRY(mode_ == Rename::kExchange ? exchange() : replace());
  if (moved_->is_directory()) moved_->parent = to_.parent;
  source_->mtime = destination_->mtime = now_;
  source_->ctime = destination_->ctime = moved_->ctime = now_;
  if (target_ != nullptr) target_->ctime = now_;
  PENSTOCK_TRY(inodes_.save());
  Renamed renamed{*moved_, std::nullopt};
  if (target_ != nullptr) renamed.replaced = *target_;
  return renamed;
}

Result<Renamed> SqliteNamespace::rename(Ino parent, std::string_view name, Ino new_parent,
                                        std::string_view new_name, Rename mode, Time now) {
  return changing([&]() -> Result<Renamed> {
    for (const std::string_view one : {name, new_name}) {
      PENSTOCK_TRY(check_name(one));
      if (one == "." || one == "..") return posix_error(EBUSY, one);
    }
    Renaming renaming(*core_, id(), {parent, name}, {new_parent, new_name}, mode, now);
    return renaming.run();
  });
}

}  // namespace penstock::meta
