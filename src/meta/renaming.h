// One rename, step by step.
#pragma once

#include <string_view>

#include "meta/entry_rows.h"
#include "meta/inode_rows.h"

namespace penstock::meta {

class Renaming {
 public:
  struct Name {
    Ino parent = 0;
    std::string_view name;
  };
  Renaming(Core& core, VolumeId volume, Name from, Name to, Rename mode, Time now)
      : core_(core),
        volume_(volume),
        from_(from),
        to_(to),
        mode_(mode),
        now_(now),
        inodes_(core, volume) {}

  Result<Renamed> run();

 private:
  Result<void> load();
  Result<InodeRow*> parent(Ino ino);
  Result<void> check() const;
  // EINVAL where `directory` is `top`, or lies below it.
  Result<void> check_not_below(Ino directory, Ino top) const;
  uint64_t new_cookie() const;  // Of the new name; 0: one at the end.
  Result<void> replace();
  Result<void> exchange();
  void move_links(int entries, int directories);

  Core& core_;
  const VolumeId volume_;
  const Name from_;
  const Name to_;
  const Rename mode_;
  const Time now_;
  InodeSet inodes_;
  InodeRow* source_ = nullptr;       // Directory of the old name,
  InodeRow* destination_ = nullptr;  // and of the new one: they may be one.
  EntryRow entry_;
  std::optional<EntryRow> target_entry_;
  InodeRow* moved_ = nullptr;
  InodeRow* target_ = nullptr;  // What has the new name, where something has.
};

}  // namespace penstock::meta
