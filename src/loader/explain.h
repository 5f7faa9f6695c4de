// What a report means: which stage is the limit, in a sentence, and what to change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/loader.h"

namespace penstock::loader {

enum class Limit : uint8_t {
  kNothing,   // Too little was measured.
  kConsumer,  // Batches wait for who uses them.
  kDecode,
  kRead,     // Worker threads, in reads.
  kStorage,  // Reads under way all the time, and workers without work.
  kMemory,   // Nothing can be begun for want of memory.
  kPlan,
  kLatency,  // Nobody is busy: each waits for another.
};
std::string_view limit_name(Limit limit);

struct Explanation {
  Limit limit = Limit::kNothing;
  std::string verdict;              // One sentence.
  std::vector<std::string> advice;  // What to change, the most useful first.
  double samples_per_second = 0;    // As measured.
  double idle_share = 0;            // Of the caller's time, waiting in next().
};

// `step`: how long a step of training takes, where that is known.
Explanation explain(const Report& report, std::optional<Nanoseconds> step = {},
                    uint32_t batch_size = 0);
// For people: the numbers by stage, then the verdict and the advice.
std::string to_text(const Report& report, const Explanation& explanation);

}  // namespace penstock::loader
