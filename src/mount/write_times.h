// When files were changed, as the kernel has it.
//
// The kernel that gathers writes keeps the time of the last one itself, and tells us, before or
// after it sends what was written: a second order of things in which the time that we set when a
// write arrives is always wrong. Here is what the time was before; it is set again when no word of
// the kernel's came.
// Threads: all calls from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "penstock/volume.h"

namespace penstock::mount {

class WriteTimes {
 public:
  // `volume` outlives it.
  explicit WriteTimes(volume::Volume& volume);
  ~WriteTimes();

  // Around a write of what the kernel had gathered.
  class Writing {
   public:
    Writing(WriteTimes& times, meta::Ino ino) : times_(times), ino_(ino) { times_.begin(ino_); }
    ~Writing() { times_.end(ino_); }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    WriteTimes& times_;
    const meta::Ino ino_;
  };

  // Somebody sets the time; `change` does it.
  Result<meta::Inode> set(meta::Ino ino, meta::Time time,
                          const std::function<Result<meta::Inode>()>& change);
  // As programs are to see it.
  void show(meta::Inode& inode);

 private:
  struct Kept {
    meta::Time time = 0;
    uint32_t writes = 0;  // Under way.
    bool idle = false;    // Since the last look.
  };

  void begin(meta::Ino ino);
  void end(meta::Ino ino);
  void run();
  void restore(bool all);

  volume::Volume& volume_;
  std::mutex mutex_;  // Held while a time is set, so that an older one never comes after.
  std::unordered_map<meta::Ino, Kept> kept_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread restorer_;
};

}  // namespace penstock::mount
