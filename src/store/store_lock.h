#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "penstock/io.h"
#include "penstock/store.h"

namespace penstock::store {

// One holder at a time among the threads of this process and among processes. What a process that
// dies held is free again: the kernel drops it. Threads: acquire() from any thread.
class StoreLock {
 public:
  class Held {
   public:
    Held(Held&& other) noexcept;
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    friend class StoreLock;
    Held(StoreLock* lock, std::unique_ptr<io::FileLock> file)
        : lock_(lock), file_(std::move(file)) {}
    StoreLock* lock_;
    std::unique_ptr<io::FileLock> file_;
  };

  StoreLock(io::FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  // Waits; kTimeout and kCancelled as for any call.
  Result<Held> acquire(const CallOptions& options);

 private:
  Result<void> enter(const CallOptions& options);
  void leave();

  io::FileSystem& fs_;
  const std::string path_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool held_ = false;
};

}  // namespace penstock::store
