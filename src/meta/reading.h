// What a view reads, of any version. Each call takes its turn.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "meta/core.h"
#include "meta/inode_rows.h"

namespace penstock::meta {

class Reading {
 public:
  Reading(std::shared_ptr<Core> core, std::shared_ptr<Volume> volume, Version version)
      : core_(std::move(core)), volume_(std::move(volume)), version_(version) {}

  Result<Inode> inode(Ino ino);
  Result<Inode> lookup(Ino directory, std::string_view name);
  Result<std::vector<Entry>> list(Ino directory, uint64_t cookie, size_t count);
  uint64_t last_cookie();
  Result<std::vector<Entry>> list_names(Ino directory, std::string_view from, size_t count);
  Result<std::string> symlink(Ino ino);
  Result<std::vector<Extent>> extents(Ino ino, uint64_t offset, uint64_t length);
  Result<std::string> xattr(Ino ino, std::string_view name);
  Result<std::vector<std::string>> xattrs(Ino ino);
  Result<Totals> totals();

 private:
  // kNotFound when the volume, or the version of it, is gone.
  Result<void> check_there() const;
  Result<Inode> look_up(Ino directory, std::string_view name);
  Result<std::optional<InodeRow>> find(Ino directory, std::string_view name);
  template <typename Body>
  auto read(Body body) -> decltype(body());

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Volume> volume_;
  const Version version_;
};

// A view of a version that does not change any more.
std::unique_ptr<View> make_past_view(std::shared_ptr<Core> core, std::shared_ptr<Volume> volume,
                                     Version version);

// kNotFound where there is none, be it that it was removed.
Result<void> check_volume(const Volume& volume);

}  // namespace penstock::meta
