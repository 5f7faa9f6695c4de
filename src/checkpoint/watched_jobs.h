// The saves under way, and those with an error that nobody has seen.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "checkpoint/job.h"

namespace penstock::checkpoint {

// Threads: all calls from any thread.
class WatchedJobs {
 public:
  void add(std::shared_ptr<Job> job);
  // The first error that nobody has seen, and now has been.
  Result<void> raise_unseen();
  // Until none is under way and old ones are removed, without having seen their errors. kCancelled where
  // `give_up`, which is asked every now and then, says so.
  Result<void> wait_all(const std::function<bool()>& give_up = {});
  bool has_name(const std::string& name) const;  // Under way.

  struct Behind {
    size_t saves = 0;
    uint64_t bytes = 0;  // Not written yet.
  };
  Behind behind() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace penstock::checkpoint
