#include "cache/keeper_desk.h"

#include <utility>

namespace penstock::cache {

void KeeperDesk::want_tick(std::unique_lock<std::mutex>& held) {
  if (std::exchange(wanted_, true)) return;
  held.unlock();
  changed_.notify_all();
}

bool KeeperDesk::reserve(const EntryName& name) {
  std::unique_lock lock(mutex_);
  if (!allowance_.reserve(name)) return false;
  if (allowance_.runs_out()) want_tick(lock);
  return true;
}

void KeeperDesk::cancel_fill(const EntryName& name) {
  std::lock_guard lock(mutex_);
  allowance_.cancelled(name);
}

void KeeperDesk::note_added(const EntryName& name) {
  std::lock_guard lock(mutex_);
  allowance_.added(name);
  notes_.add({Note::Kind::kAdded, name.id, name.file_bytes()});
}

void KeeperDesk::note(const Note& note) {
  std::lock_guard lock(mutex_);
  notes_.add(note);
}

void KeeperDesk::count_read(uint64_t hit_bytes, uint64_t miss_bytes) {
  if (hit_bytes > 0) hit_bytes_.fetch_add(hit_bytes, std::memory_order_relaxed);
  if (miss_bytes > 0) miss_bytes_.fetch_add(miss_bytes, std::memory_order_relaxed);
}

void KeeperDesk::count_anew() {
  std::lock_guard lock(mutex_);
  anew_ = true;
  hit_bytes_ = 0;
  miss_bytes_ = 0;
}

uint64_t KeeperDesk::room_bytes() const {
  std::lock_guard lock(mutex_);
  return allowance_.open_bytes();
}

void KeeperDesk::set_quota(SizeOrPercent quota) {
  std::unique_lock lock(mutex_);
  quota_ = quota;
  want_tick(lock);
}

KeeperStatus KeeperDesk::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

Result<void> KeeperDesk::settle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = ++settle_asked_;
  changed_.notify_all();
  const auto done = [&] { return settle_done_ >= ticket || stop_; };
  if (deadline == kNoDeadline) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_until(lock, deadline, done)) {
    return make_error(ErrorCode::kTimeout, "the cache's keeper did not come to rest in time", true);
  }
  if (settle_done_ < ticket) return make_error(ErrorCode::kClosed, "the cache is being closed");
  return settle_result_;
}

void KeeperDesk::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

bool KeeperDesk::wait(SteadyTime earliest, SteadyTime until) {
  std::unique_lock lock(mutex_);
  const auto urgent = [this] { return stop_ || settle_asked_ > settle_done_; };
  changed_.wait_until(lock, until, [&] { return urgent() || wanted_; });
  changed_.wait_until(lock, earliest, urgent);
  wanted_ = false;
  return !stop_;
}

bool KeeperDesk::stopping() const {
  std::lock_guard lock(mutex_);
  return stop_;
}

bool KeeperDesk::wanted() const {
  std::lock_guard lock(mutex_);
  return wanted_;
}

uint64_t KeeperDesk::begin_tick() {
  std::lock_guard lock(mutex_);
  wanted_ = false;
  return settle_asked_;
}

void KeeperDesk::end_tick(uint64_t ticket, const Result<void>& result) {
  {
    std::lock_guard lock(mutex_);
    if (ticket <= settle_done_) return;
    settle_done_ = ticket;
    settle_result_ = result;
  }
  changed_.notify_all();
}

OwnNews KeeperDesk::drain() {
  std::lock_guard lock(mutex_);
  OwnNews news;
  news.notes = notes_.drain();
  news.tally = {.hit_bytes = hit_bytes_.exchange(0, std::memory_order_relaxed),
                .miss_bytes = miss_bytes_.exchange(0, std::memory_order_relaxed),
                .anew = std::exchange(anew_, false)};
  news.standing = allowance_.standing();
  const uint64_t published = allowance_.published_bytes();
  news.filled = allowance_.reserved_bytes() > 0 || published != drained_published_;
  drained_published_ = published;
  return news;
}

bool KeeperDesk::has_notes() const {
  std::lock_guard lock(mutex_);
  return !notes_.empty() || anew_ || hit_bytes_ > 0 || miss_bytes_ > 0;
}

Standing KeeperDesk::standing() const {
  std::lock_guard lock(mutex_);
  return allowance_.standing();
}

SizeOrPercent KeeperDesk::quota() const {
  std::lock_guard lock(mutex_);
  return quota_;
}

void KeeperDesk::adopt(Grant grant) {
  std::lock_guard lock(mutex_);
  allowance_.adopt(std::move(grant));
}

void KeeperDesk::regrant(const std::function<Grant(const Standing&)>& decide) {
  std::lock_guard lock(mutex_);
  allowance_.adopt(decide(allowance_.standing()));
}

void KeeperDesk::set_status(const KeeperStatus& status) {
  std::lock_guard lock(mutex_);
  status_ = status;
}

}  // namespace penstock::cache
