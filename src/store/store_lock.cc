#include "store/store_lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "store/blocking_store.h"

namespace penstock::store {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kLookAround{20};  // How often a waiter looks whether it was cancelled.
constexpr microseconds kPollMin{50};
constexpr microseconds kPollMax{5000};
constexpr std::chrono::seconds kLongWait{5};  // Then the log says what is waited for.

}  // namespace

StoreLock::Held::Held(Held&& other) noexcept
    : lock_(std::exchange(other.lock_, nullptr)), file_(std::move(other.file_)) {}

StoreLock::Held::~Held() {
  file_.reset();
  if (lock_ != nullptr) lock_->leave();
}

Result<void> StoreLock::enter(const CallOptions& options) {
  std::unique_lock lock(mutex_);
  while (held_) {
    PENSTOCK_TRY(check_call(options));
    free_.wait_for(lock, kLookAround);
  }
  held_ = true;
  return {};
}

void StoreLock::leave() {
  {
    std::lock_guard lock(mutex_);
    held_ = false;
  }
  free_.notify_one();
}

Result<StoreLock::Held> StoreLock::acquire(const CallOptions& options) {
  PENSTOCK_TRY(enter(options));
  Held held(this, nullptr);
  const auto started = std::chrono::steady_clock::now();
  bool said = false;
  for (microseconds pause = kPollMin;; pause = std::min(pause * 2, kPollMax)) {
    Result<std::unique_ptr<io::FileLock>> file = fs_.try_lock(path_);
    if (file.ok()) {
      held.file_ = std::move(*file);
      return held;
    }
    if (file.error().code != ErrorCode::kBusy) return file.error();
    PENSTOCK_TRY(check_call(options));
    std::this_thread::sleep_for(pause);
    if (!said && std::chrono::steady_clock::now() - started > kLongWait) {
      said = true;
      log_warn("still waiting for a lock that another process holds", {{"path", path_}});
    }
  }
}

}  // namespace penstock::store
