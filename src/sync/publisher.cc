#include "sync/publisher.h"

#include <algorithm>

namespace penstock::sync {

namespace {

constexpr size_t kRenamers = 8;  // For file systems across a network, where a rename is a request.
constexpr Nanoseconds kHurriedIdle = std::chrono::milliseconds(5);
constexpr size_t kRenamesPerThread = 16;  // Below, another thread is not worth waking.

Error stopped() {
  return make_error(ErrorCode::kCancelled, "stopped before it was published");
}

}  // namespace

Publisher::Publisher(io::FileSystem& fs, std::string root, std::stop_token stop,
                     PublishLimits limits)
    : fs_(fs),
      root_(std::move(root)),
      stop_(std::move(stop)),
      limits_(limits),
      renamers_("sync-rename", kRenamers, kRenamers),
      idle_(limits.idle),
      thread_([this] {
        set_thread_name("sync-publish");
        run();
      }) {}

Publisher::~Publisher() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (Waiting& left : waiting_) left.done(stopped());
}

void Publisher::add(std::unique_ptr<StagedFile> file, io::RenameMode mode, Done done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_, [this] {
    return waiting_.size() < limits_.files && waiting_bytes_ < limits_.bytes;
  });
  if (stop_.stop_requested()) {
    lock.unlock();
    file.reset();
    return done(stopped());
  }
  newest_ = std::chrono::steady_clock::now();
  if (waiting_.empty()) oldest_ = newest_;
  waiting_bytes_ += file->size();
  waiting_.push_back({std::move(file), mode, std::move(done)});
  lock.unlock();
  changed_.notify_all();
}

void Publisher::hurry() {
  std::lock_guard lock(mutex_);
  idle_ = std::min(idle_, kHurriedIdle);
  changed_.notify_all();
}

// Whether the waiting group is to be published now; otherwise when to look again.
bool Publisher::is_due(Deadline& wake_at) const {
  if (waiting_.empty()) return false;
  if (stop_.stop_requested()) return true;
  if (waiting_.size() >= limits_.files || waiting_bytes_ >= limits_.bytes) return true;
  wake_at = std::min(oldest_ + limits_.age, newest_ + idle_);
  return std::chrono::steady_clock::now() >= wake_at;
}

Publisher::Group Publisher::take_group() {
  Group group;
  group.swap(waiting_);
  waiting_bytes_ = 0;
  return group;
}

void Publisher::run() {
  // A stop wakes the thread, which then throws away what is waiting.
  const std::stop_callback on_stop(stop_, [this] {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  while (!closing_) {
    Deadline wake_at = kNoDeadline;
    if (!is_due(wake_at)) {
      if (wake_at == kNoDeadline) changed_.wait(lock);
      if (wake_at != kNoDeadline) changed_.wait_until(lock, wake_at);
      continue;
    }
    Group group = take_group();
    lock.unlock();
    changed_.notify_all();  // There is room for the next group.
    publish(group);
    group.clear();
    lock.lock();
  }
}

void Publisher::publish(Group& group) {
  const auto fail_all = [&](const Error& error) {
    for (Waiting& one : group) {
      one.file.reset();
      one.done(error);
    }
  };
  if (stop_.stop_requested()) return fail_all(stopped());
  const bool durable = std::all_of(group.begin(), group.end(),
                                   [](const Waiting& one) { return one.file->synced(); });
  if (!durable) {
    // A failure is final: the kernel may have dropped the bytes of any of them.
    if (const Result<void> synced = fs_.sync_file_system(root_); !synced.ok()) {
      return fail_all(synced.error());
    }
  }
  // They are whole and durable: after a stop it is quicker to finish than to throw them away.
  rename_all(group);
}

void Publisher::rename_all(Group& group) {
  std::mutex mutex;
  std::condition_variable finished;
  size_t left = std::min(kRenamers, group.size() / kRenamesPerThread + 1);
  const size_t threads = left;
  const auto rename_share = [&](size_t first) {
    for (size_t i = first; i < group.size(); i += threads) {
      const Result<void> published = group[i].file->publish(group[i].mode);
      group[i].file.reset();
      group[i].done(published);
    }
    std::lock_guard lock(mutex);
    if (--left == 0) finished.notify_all();
  };
  for (size_t i = 1; i < threads; ++i) renamers_.submit([&, i] { rename_share(i); });
  rename_share(0);
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return left == 0; });
}

}  // namespace penstock::sync
