#include "store/s3_backoff.h"

#include <algorithm>

namespace penstock::store {

S3Backoff::S3Backoff(Nanoseconds min, Nanoseconds max, uint64_t seed)
    : min_(min), max_(max), random_(seed) {}

Nanoseconds S3Backoff::scaled(uint32_t doublings) const {
  Nanoseconds time = min_;
  for (uint32_t i = 0; i < doublings && time < max_; ++i) time *= 2;
  return std::min(time, max_);
}

Nanoseconds S3Backoff::random_up_to(Nanoseconds limit) {
  return Nanoseconds(std::uniform_int_distribution<int64_t>(0, limit.count())(random_));
}

Nanoseconds S3Backoff::delay(uint32_t failures) {
  std::lock_guard lock(mutex_);
  return random_up_to(scaled(std::max<uint32_t>(failures, 1) - 1));
}

S3Backoff::Time S3Backoff::admit(Time now) {
  std::lock_guard lock(mutex_);
  if (now >= hold_end_) return now;
  return hold_end_ + random_up_to((hold_end_ - hold_begin_) / 2);
}

void S3Backoff::slow_down(Time sent, Time now, Nanoseconds asked) {
  std::lock_guard lock(mutex_);
  // An answer to what was sent before the hold began says nothing new: one storm, one hold.
  if (level_ > 0 && sent < hold_begin_) return;
  const Nanoseconds longest = scaled(level_);
  const Nanoseconds jittered = longest / 2 + random_up_to(longest / 2);
  level_ = std::min<uint32_t>(level_ + 1, 32);
  hold_begin_ = now;
  hold_end_ = now + std::max(jittered, std::min(asked, max_));
}

void S3Backoff::served(Time sent) {
  std::lock_guard lock(mutex_);
  if (level_ > 0 && sent >= hold_begin_) --level_;
}

}  // namespace penstock::store
