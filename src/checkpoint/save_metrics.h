#pragma once

#include "base/metrics.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

// What all checkpointers of the process count together.
struct SaveMetrics {
  Counter& saves;
  Counter& failures;
  Counter& skipped;
  Counter& bytes;
  Counter& linked_bytes;
  Counter& rewritten;
  Histogram& stall;
  Histogram& durable;
  Histogram& replicated;
  Gauge& under_way;

  static SaveMetrics& global();
};

}  // namespace penstock::checkpoint
