// Something that will be reached, or fail, once; and whose failure somebody should see.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::checkpoint {

// Threads: all calls from any thread.
class Milestone {
 public:
  void finish(Result<void> result) {
    std::lock_guard lock(mutex_);
    unseen_ = !result.ok() && result.error().code != ErrorCode::kCancelled;
    result_ = std::move(result);
    ended_.notify_all();
  }
  // What became of it: the caller has seen it then. Nothing at the deadline.
  std::optional<Result<void>> wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return result_.has_value(); };
    if (deadline == kNoDeadline) {
      ended_.wait(lock, ended);
    } else if (!ended_.wait_until(lock, deadline, ended)) {
      return std::nullopt;
    }
    unseen_ = false;
    return result_;
  }
  // Without having seen it. False at the deadline.
  bool wait_end(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return result_.has_value(); };
    if (deadline != kNoDeadline) return ended_.wait_until(lock, deadline, ended);
    ended_.wait(lock, ended);
    return true;
  }
  bool ended() const {
    std::lock_guard lock(mutex_);
    return result_.has_value();
  }
  bool has_unseen() const {
    std::lock_guard lock(mutex_);
    return unseen_;
  }
  std::optional<Error> take_unseen() {
    std::lock_guard lock(mutex_);
    if (!unseen_) return std::nullopt;
    unseen_ = false;
    return result_->error();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<void>> result_;
  bool unseen_ = false;  // An error.
};

}  // namespace penstock::checkpoint
