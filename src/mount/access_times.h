// Times of access: noted when something is read, written to the volume some seconds later, many at
// once. One that is lost with the process was never promised.
// Threads: all calls from any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "penstock/mount.h"
#include "penstock/volume.h"

namespace penstock::mount {

// Whether a read at `now` is to set the time of access.
bool access_is_due(const meta::Inode& inode, meta::Time now, AccessTimes mode);

class AccessLog {
 public:
  // `volume` outlives it; null: nothing is ever noted.
  AccessLog(volume::Volume* volume, AccessTimes mode);
  ~AccessLog();

  // It is read now.
  void note(meta::Ino ino);
  // Its content changed, or its times were set: the next read counts again.
  void forget(meta::Ino ino);
  // The time of access as programs are to see it.
  void show(meta::Inode& inode);

 private:
  static constexpr size_t kNotedMax = 100'000;
  static constexpr size_t kSettledMax = 100'000;

  bool settled(meta::Ino ino);
  void run();
  void write(std::unordered_map<meta::Ino, meta::Time> noted);

  volume::Volume* const volume_;
  const AccessTimes mode_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::unordered_map<meta::Ino, meta::Time> noted_;  // Not yet in the volume.
  // Whose time needs no look, as it was looked at: without them each read would ask for the inode.
  std::unordered_set<meta::Ino> settled_;
  std::thread writer_;
};

}  // namespace penstock::mount
