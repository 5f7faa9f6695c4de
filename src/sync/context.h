// What all parts of one run share.
#pragma once

#include <memory>

#include "base/rate_limiter.h"
#include "penstock/buffer.h"
#include "penstock/sync.h"
#include "sync/compare.h"
#include "sync/filter.h"
#include "sync/publisher.h"
#include "sync/tally.h"
#include "sync/tree_target.h"

namespace penstock::sync {

struct Context {
  Place& from;
  Place& to;
  const Options& options;
  FilterList filters;
  Tally tally;
  RateLimiter limiter;
  std::shared_ptr<io::BufferProvider> buffers;
  uint64_t range_bytes = 0;              // Large objects go in ranges of this size.
  uint64_t upload_bytes_max = 0;         // Memory for uploads of large objects to a store.
  std::unique_ptr<TreeTarget> tree;      // Null when the target is a store,
  std::unique_ptr<Publisher> publisher;  // or in a dry run.

  bool from_tree() const { return from.file_system != nullptr; }
  bool to_tree() const { return to.file_system != nullptr; }
  bool stopped() const { return options.stop.stop_requested(); }
  // Nothing is there yet, in a dry run: the directory is only made by a real one.
  bool target_missing() const { return to_tree() && to.missing; }
  CompareRules rules() const {
    return {from_tree(), to_tree(), options.checksum, tree ? tree->time_step_ns() : 1};
  }
  template <typename T>
  T call() const {
    T call;
    call.cancel = options.stop;
    return call;
  }
};

}  // namespace penstock::sync
