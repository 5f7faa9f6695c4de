// When records were appended, to about a tenth of a second, in little memory.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>

namespace penstock::volume {

class JournalAges {
 public:
  // In the order of the sequence. The clock may jump.
  void note(uint64_t sequence, int64_t time_ns) {
    if (!marks_.empty() && time_ns >= marks_.back().time_ns &&
        time_ns - marks_.back().time_ns < kStepNs) {
      return;
    }
    marks_.push_back({sequence, time_ns});
  }

  // Records up to this one are not asked for any more.
  void forget(uint64_t sequence) {
    while (marks_.size() > 1 && marks_[1].sequence <= sequence + 1) marks_.pop_front();
  }

  // Of the oldest that was not forgotten. Requires that there is one.
  int64_t oldest_ns() const { return marks_.empty() ? 0 : marks_.front().time_ns; }

 private:
  static constexpr int64_t kStepNs = 100'000'000;
  struct Mark {
    uint64_t sequence = 0;
    int64_t time_ns = 0;
  };
  std::deque<Mark> marks_;
};

}  // namespace penstock::volume
