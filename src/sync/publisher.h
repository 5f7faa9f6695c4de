#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "sync/staged_file.h"

namespace penstock::sync {

struct PublishLimits {
  size_t files = 512;  // A group is published when it has so many files,
  uint64_t bytes = kGiB;
  Nanoseconds age = std::chrono::seconds(1);          // or its first file has waited so long,
  Nanoseconds idle = std::chrono::milliseconds(200);  // or no other came for so long.
};

// Gives staged files their names in groups: one sync of the file system makes the bytes of all of
// them durable, then they are renamed. So a power cut never leaves a torn file under a final name,
// at a fraction of the price of a sync for each. While one group is being synced the next one
// fills.
// Threads: all calls from any thread.
// Stopping: on `stop`, and in the destructor, what is not yet published is removed.
class Publisher {
 public:
  // Called once for each file, on a thread of the publisher or in the call; must not call it back.
  using Done = std::function<void(Result<void>)>;

  // `root` is a directory of the file system of the files, which outlives it.
  Publisher(io::FileSystem& fs, std::string root, std::stop_token stop, PublishLimits limits = {});
  ~Publisher();

  // Takes a finished file; waits while the group that is filling is full.
  void add(std::unique_ptr<StagedFile> file, io::RenameMode mode, Done done);
  // Not much more will come: do not wait for it.
  void hurry();

 private:
  struct Waiting {
    std::unique_ptr<StagedFile> file;
    io::RenameMode mode;
    Done done;
  };
  using Group = std::vector<Waiting>;

  void run();
  bool is_due(Deadline& wake_at) const;
  Group take_group();
  void publish(Group& group);
  void rename_all(Group& group);

  io::FileSystem& fs_;
  const std::string root_;
  const std::stop_token stop_;
  const PublishLimits limits_;
  ThreadPool renamers_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Group waiting_;
  uint64_t waiting_bytes_ = 0;
  std::chrono::steady_clock::time_point oldest_;
  std::chrono::steady_clock::time_point newest_;
  Nanoseconds idle_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace penstock::sync
