#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "penstock/units.h"

namespace penstock::cli {

// How fast something grows, over the last ten seconds.
// Threads: one at a time.
class RateMeter {
 public:
  // To be told again and again, with what there is in all.
  void add(uint64_t total, Deadline now = std::chrono::steady_clock::now());
  double per_second() const;
  // How long `rest` will take; nothing while that cannot be said.
  std::optional<Nanoseconds> time_for(uint64_t rest) const;

 private:
  struct Sample {
    Deadline at;
    uint64_t total = 0;
  };
  std::deque<Sample> samples_;
};

// One line on the terminal that is written over and over. Where standard error is no terminal, a line
// every half minute, so that the log of a batch job shows that it lives.
// Threads: one at a time.
class ProgressLine {
 public:
  // `command` begins the lines of a log: "penstock cache warm".
  explicit ProgressLine(std::string command);
  ~ProgressLine() { clear(); }

  // Whether show() would print something now: ask before putting together a text.
  bool due() const;
  void show(const std::string& text);
  void clear();

 private:
  const std::string command_;
  const bool terminal_;
  const std::chrono::steady_clock::duration every_;
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

// "12,345"
std::string group_digits(uint64_t number);
// "1 shard", "1,024 shards"
std::string counted(uint64_t number, std::string_view one, std::string_view many);
// " 42 %"; never 100 % while something is missing.
std::string format_share(uint64_t part, uint64_t whole);

}  // namespace penstock::cli
