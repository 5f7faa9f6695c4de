// What the stores in front of one set of directories share.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "cache/entry.h"
#include "cache/memory_windows.h"
#include "cache/tier.h"
#include "penstock/buffer.h"
#include "penstock/cache.h"
#include "store/call_queue.h"

namespace penstock::cache {

class GetCall;

// Counted twice: for stats() of this cache, and in the metrics of the process.
class CacheCounter {
 public:
  CacheCounter(std::string_view name, std::string_view help)
      : global_(Metrics::global().counter(name, help)) {}
  void add(uint64_t amount = 1) {
    own_.add(amount);
    global_.add(amount);
  }
  uint64_t value() const { return own_.value(); }

 private:
  Counter own_;
  Counter& global_;
};

struct CacheCounters {
  CacheCounter hits{"penstock_cache_hits_total", "Pieces of windows answered from a drive."};
  CacheCounter hit_bytes{"penstock_cache_hit_bytes_total", "Bytes answered from a drive."};
  CacheCounter memory_hits{"penstock_cache_memory_hits_total",
                           "Pieces of windows answered from a window in memory."};
  CacheCounter memory_hit_bytes{"penstock_cache_memory_hit_bytes_total",
                                "Bytes answered from a window in memory."};
  CacheCounter misses{"penstock_cache_misses_total", "Pieces of windows answered from the source."};
  CacheCounter miss_bytes{"penstock_cache_miss_bytes_total", "Bytes answered from the source."};
  CacheCounter source_bytes{"penstock_cache_source_bytes_total",
                            "Bytes fetched from the source, neighbours included."};
};

class CacheCore final : public Cache {
 public:
  CacheCore(const CacheOptions& options, io::FileSystem& fs,
            std::shared_ptr<io::BufferProvider> buffers);
  ~CacheCore() override;

  // A directory that cannot be used now is no error: it is tried again. One that holds something
  // else was mistyped, and none at all is no cache.
  Result<void> check_directories(io::FileSystem& fs);

  void set_quota(SizeOrPercent quota) override;
  CacheStats stats() const override;
  void drain() override;
  void settle(Deadline deadline) override;

  const CacheOptions& options() const { return options_; }
  CacheCounters& counters() { return counters_; }
  MemoryWindows& windows() { return windows_; }

  // The drive that an entry belongs to. Adding or losing one moves only its share.
  Tier& tier_for(const EntryId& id);
  // What all drives together may hold now.
  uint64_t limit_bytes() const;

  // Memory for a transfer, taken from windows kept for later if need be; kBusy when all is in use.
  Result<io::Buffer> take(size_t bytes);
  // Runs `retry` when memory was given back, or a little later.
  void when_memory(std::function<void()> retry);
  // The same, and gives up no window for it: for who waits for a drive.
  void when_freed(std::function<void()> retry);
  // Memory was given back.
  void memory_freed();

  // Runs `task` on a thread of the cache: for what must not happen inside a call.
  void post(std::function<void()> task) { tasks_.start(std::move(task)); }

  // Calls expire() when the call's deadline passes or it is cancelled.
  void watch(std::weak_ptr<GetCall> call);
  // Runs `check` every 50 ms until it returns false.
  void repeat(std::function<bool()> check);

  // Loads under way, for drain().
  void load_started();
  void load_finished();

 private:
  void run_timer();
  void check_calls(std::vector<std::weak_ptr<GetCall>>& calls);

  const CacheOptions options_;
  const std::shared_ptr<io::BufferProvider> buffers_;
  CacheCounters counters_;
  MemoryWindows windows_;
  std::vector<std::shared_ptr<Tier>> tiers_;
  std::vector<uint64_t> seeds_;  // Of the tiers, for spreading.
  store::CallQueue tasks_;

  std::mutex memory_mutex_;
  std::deque<std::function<void()>> waiting_;  // For memory. At most one per piece under way.

  std::mutex loads_mutex_;
  std::condition_variable loads_done_;
  uint64_t loads_ = 0;

  std::mutex timer_mutex_;
  std::condition_variable timer_wakes_;
  std::vector<std::weak_ptr<GetCall>> watched_;
  std::vector<std::function<bool()>> repeated_;
  bool stopping_ = false;
  std::thread timer_;  // Last: uses all of the above.
};

}  // namespace penstock::cache
