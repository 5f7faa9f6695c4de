#include "cache/get_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace penstock::cache {

namespace {
// How often a read of "whatever is current" begins again when that changes under it.
constexpr int kAttemptsMax = 4;
}  // namespace

GetCall::GetCall(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done, Gate::Pass pass)
    : key_(std::move(key)),
      offset_(offset),
      into_(into),
      options_(std::move(options)),
      done_(std::move(done)),
      pass_(std::move(pass)) {}

void GetCall::begin(VersionRef version, uint64_t window_bytes, Streams::Pattern pattern) {
  std::lock_guard lock(mutex_);
  version_ = std::move(version);
  window_bytes_ = window_bytes;
  pattern_ = pattern;
  const uint64_t size = version_->info.size;
  position_ = std::min(offset_, size);
  end_ = position_ + std::min<uint64_t>(into_.size(), size - position_);
  error_.reset();
  under_way_ = 1;
}

std::optional<Piece> GetCall::next_piece(uint32_t limit) {
  std::lock_guard lock(mutex_);
  if (position_ >= end_ || under_way_ > limit || error_ || answered_) return std::nullopt;
  const uint64_t window = position_ / window_bytes_;
  const uint64_t begin = position_ - window * window_bytes_;
  const uint64_t length = std::min(window_bytes_ - begin, end_ - position_);
  const Piece piece{window, static_cast<uint32_t>(begin),
                    into_.subspan(position_ - offset_, length)};
  position_ += length;
  ++under_way_;
  return piece;
}

bool GetCall::copy(std::span<std::byte> to, std::span<const std::byte> from, BlockHashes* hashes) {
  if (!lend()) return false;
  if (hashes != nullptr) {
    hashes->copy(to, from);
  } else {
    std::memcpy(to.data(), from.data(), to.size());
  }
  give_back();
  return true;
}

bool GetCall::lend() {
  std::lock_guard lock(mutex_);
  if (answered_ || late_answer_) return false;
  ++users_of_memory_;
  return true;
}

void GetCall::give_back() {
  std::unique_lock lock(mutex_);
  --users_of_memory_;
  if (late_answer_ && users_of_memory_ == 0) answer(lock);
}

bool GetCall::piece_done(const Result<void>& outcome) {
  std::lock_guard lock(mutex_);
  if (!outcome.ok() && !error_) error_ = outcome.error();
  --under_way_;
  const bool more = position_ < end_ && !error_;
  return under_way_ == 0 && !more && !answered_;
}

Result<store::GetResult> GetCall::outcome() const {
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  const uint64_t start = std::min(offset_, version_->info.size);
  return store::GetResult{static_cast<size_t>(end_ - start), version_->info};
}

bool GetCall::may_restart() {
  std::lock_guard lock(mutex_);
  if (!error_ || error_->code != ErrorCode::kChanged || !options_.if_match.empty()) return false;
  return ++attempts_ < kAttemptsMax;
}

void GetCall::answer(std::unique_lock<std::mutex>& lock) {
  answered_ = true;
  Result<store::GetResult> result = std::move(*late_answer_);
  late_answer_.reset();
  const store::Done<store::GetResult> done = std::move(done_);
  lock.unlock();
  done(std::move(result));
}

void GetCall::finish(Result<store::GetResult> result) {
  std::unique_lock lock(mutex_);
  if (answered_ || late_answer_) return;
  late_answer_ = std::move(result);
  if (users_of_memory_ == 0) answer(lock);
}

bool GetCall::expire_if_due() {
  {
    std::lock_guard lock(mutex_);
    if (answered_ || late_answer_) return true;
  }
  if (options_.cancel.stop_requested()) {
    finish(make_error(ErrorCode::kCancelled, fmt::format("reading '{}' was cancelled", key_)));
    return true;
  }
  if (std::chrono::steady_clock::now() >= options_.deadline) {
    finish(make_error(ErrorCode::kTimeout,
                      fmt::format("'{}' could not be read before its deadline", key_), true));
    return true;
  }
  return false;
}

bool GetCall::enter_pump() {
  std::lock_guard lock(mutex_);
  pump_again_ = pumping_;
  return !std::exchange(pumping_, true);
}

bool GetCall::leave_pump() {
  std::lock_guard lock(mutex_);
  if (std::exchange(pump_again_, false)) return false;
  pumping_ = false;
  return true;
}

}  // namespace penstock::cache
