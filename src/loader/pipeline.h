// From the order for a batch to the batch: plans its reads, has them read, decodes them.
//
//   start() -> places found, reads planned, memory taken, reads begun
//           -> units whose bytes are there wait in line, earlier batches first
//           -> a worker decodes each slot of a unit into the batch
//   wait()  -> after the last unit
//
// Reads are either begun at once and end on a thread of the store (direct, remote, cached), or are
// done by the worker itself just before it decodes (page cache), which then finds the bytes in its
// own CPU's cache.
//
// Threads: start() from one thread at a time, wait() from any.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "loader/batch_work.h"
#include "loader/slot_decoder.h"
#include "loader/stats.h"
#include "loader/stream_shards.h"

namespace penstock::loader {

// So long may a batch take before it is said that something is stuck, and how often again.
inline constexpr Nanoseconds kSayAfter = std::chrono::seconds(30);

struct PipelineOptions {
  std::vector<Field> fields;
  uint32_t batch_size = 256;
  uint64_t memory_bytes = 2 * kGiB;
  uint32_t threads = 1;
  OnError on_error = OnError::kRaise;
  io::PinPolicy pin = io::PinPolicy::kIfGpu;
  io::MemoryRegistrar* registrar = nullptr;
  uint64_t stream_bytes = 64 * kMiB;  // Of compressed shards: decompressed, and kept.
  bool fills_page_cache = false;      // Local data that is read buffered, and fits.
};

using WorkRef = std::shared_ptr<BatchWork>;

class Pipeline {
 public:
  static Result<std::unique_ptr<Pipeline>> create(PipelineOptions options,
                                                  BatchWork::Datasets datasets);
  // Stops the workers, and waits for reads under way.
  ~Pipeline();

  // Blocks while there is no memory for it. kCancelled on stop, kNoMemory when it can never fit.
  Result<WorkRef> start(BatchOrder order, std::stop_token stop);
  // Until all of it is there; kTimeout at the deadline, and for no other reason. What goes wrong with
  // single samples is told as on_error says, once.
  Result<void> wait(BatchWork& batch, Deadline deadline = kNoDeadline);
  bool ready(const BatchWork& batch) const { return batch.complete.load(); }

  std::shared_ptr<Stats> stats() const;
  void reset_stats();
  io::BufferStats memory() const { return buffers_->stats(); }

 private:
  struct Shared;  // What completions of reads may still use when the pipeline is gone.

  Pipeline(PipelineOptions options, BatchWork::Datasets datasets,
           std::shared_ptr<io::BufferProvider> buffers);
  std::vector<Wanted> find_wanted(BatchWork& batch);
  void find_slot(BatchWork& batch, uint32_t slot, std::vector<Wanted>& wanted);
  Result<io::Buffer> take(uint64_t bytes, const std::stop_token& stop);
  void begin_reads(const WorkRef& batch);
  void begin_read(const WorkRef& batch, uint32_t unit, uint32_t p,
                  const std::shared_ptr<Stats>& stats);
  void read_unit(BatchWork& batch, uint32_t unit, Stats& stats);
  void check_tokens(BatchWork& batch, const Unit& unit);
  void note_tokens(const BatchWork& batch, const Unit& unit, Clock::duration took, Stats& stats);
  void run_worker();
  Result<void> tell_failures(BatchWork& batch);

  struct FieldTable;  // Which of our fields an extension is.
  const FieldTable& table_of(uint32_t source, uint32_t shard, const data::ShardIndex& index);

  std::shared_ptr<const PipelineOptions> options_;
  std::shared_ptr<const Layout> layout_;
  BatchWork::Datasets datasets_;
  std::shared_ptr<io::BufferProvider> buffers_;
  std::shared_ptr<Shared> shared_;
  ReadRules rules_;
  bool local_tokens_ = false;                                     // And nothing else.
  std::vector<std::vector<std::unique_ptr<FieldTable>>> tables_;  // By source and shard.
  std::unique_ptr<ThreadPool> readers_;  // For what may block: files of their own, streams.
  std::vector<std::unique_ptr<StreamShards>> streams_;  // By source; null unless compressed.
  std::vector<std::thread> workers_;
};

}  // namespace penstock::loader
