#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "penstock/io.h"

namespace penstock::store {

// Up to so many files or directories are synced each for itself; for more, one barrier for the whole
// file system is taken to be cheaper.
inline constexpr size_t kSyncedOneByOneMax = 32;

// Remembers in which directories below a root names came, went or were replaced, and makes them
// durable together.
// Threads: changed() from any thread; sync() by one at a time.
class DirectorySync {
 public:
  // `directories_stay`: no one ever removes a directory below the root, so that one whose own name
  // was made durable needs no second look.
  DirectorySync(io::FileSystem& fs, std::string root, bool directories_stay)
      : fs_(fs), root_(std::move(root)), directories_stay_(directories_stay) {}

  // `directory` is the root or below it, and written as the root was.
  void changed(const std::string& directory);

  // On success every change noted before the call survives a power cut, and so do the names of the
  // directories on the way from the root. After a failure all of it is still noted, but nothing is
  // known: the file system may have dropped the changes, and say yes the next time. For many
  // directories, or with `files_too`, it is one sync of the whole file system.
  Result<void> sync(bool files_too);

 private:
  std::set<std::string> with_parents(const std::set<std::string>& directories) const;
  Result<void> sync_each(const std::set<std::string>& directories);

  io::FileSystem& fs_;
  const std::string root_;
  const bool directories_stay_;
  std::mutex mutex_;
  std::set<std::string> changed_;
  bool too_many_ = false;          // More than are remembered: only everything will do.
  std::set<std::string> durable_;  // Directories whose names are; only when they stay.
};

}  // namespace penstock::store
