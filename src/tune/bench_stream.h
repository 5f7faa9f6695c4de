// The loop that keeps a file busy: `depth` requests in flight, each completion submitting the next.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "penstock/buffer.h"
#include "penstock/io.h"
#include "tune/bench_plan.h"

namespace penstock::tune {

// A fast generator with 64 bits of state: which block comes next must cost nothing.
class BlockPicker {
 public:
  explicit BlockPicker(uint64_t seed) : state_(seed * 2 + 1) {}
  // From 0 to count - 1.
  uint64_t next(uint64_t count) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{state_} * count) >> 64);
  }

 private:
  uint64_t state_;
};

// Counts of one stream, read by the watching thread while the stream runs.
struct alignas(64) StreamMeter {
  Histogram latency;
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> ops{0};

  void note(Nanoseconds time, uint64_t moved_bytes) {
    latency.record(time);
    bytes.fetch_add(moved_bytes, std::memory_order_relaxed);
    ops.fetch_add(1, std::memory_order_relaxed);
  }
};

// Fills memory with bytes that neither compress nor repeat.
void fill_incompressible(std::span<std::byte> memory, uint64_t seed);
// Makes blocks of the same filled memory differ, each 4 KiB of them, so that no device can keep one
// copy of many.
void stamp_block(std::span<std::byte> block, uint64_t stamp);

// Something that runs by itself until its limits and can be waited for.
class BenchStream {
 public:
  virtual ~BenchStream() = default;
  virtual void start(Deadline end) = 0;
  // No new requests; those in flight finish.
  virtual void stop() = 0;
  // True when all has ended.
  virtual bool wait_until(Deadline time) = 0;
  virtual const StreamMeter& meter() const = 0;
  // After the end: when the last request completed, and the first error there was.
  virtual Deadline finished_at() const = 0;
  virtual std::optional<Error> error() const = 0;
};

// The end of a stream with several parts, each of which calls retire() once, when it ends.
class StreamEnd {
 public:
  void arm(size_t parts) { active_ = parts; }  // Before any part starts.
  void retire(Deadline now);
  // Keeps the first.
  void fail(Error error);
  bool wait_until(Deadline time);
  Deadline finished_at() const;
  std::optional<Error> error() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  size_t active_ = 0;
  Deadline finished_at_;
  std::optional<Error> error_;
};

struct FileStreamOptions {
  bool write = false;
  bool random = false;
  uint64_t begin = 0;  // The part of the file that is this stream's,
  uint64_t span = 0;   // at least one block.
  uint64_t block_bytes = 0;
  uint32_t depth = 1;
  uint64_t limit_bytes = 0;  // 0: none.
  uint64_t seed = 1;
};

// Reads or writes one file. `memory` holds `depth` blocks, filled before writes. Both outlive the
// stream, and the stream is waited for before it is destroyed.
class FileStream final : public BenchStream {
 public:
  FileStream(io::File& file, const FileStreamOptions& options, const io::MemorySlice& memory);

  void start(Deadline end) override;
  void stop() override { stopped_.store(true, std::memory_order_relaxed); }
  bool wait_until(Deadline time) override { return end_.wait_until(time); }
  const StreamMeter& meter() const override { return meter_; }
  Deadline finished_at() const override { return end_.finished_at(); }
  std::optional<Error> error() const override { return end_.error(); }

 private:
  struct Slot {
    FileStream* stream = nullptr;
    io::MemorySlice memory;
    BlockPicker picker{1};
    Deadline started;
  };

  // Makes the next request of this slot; nothing when the stream is to end.
  bool next_request(Slot& slot, Deadline now, io::IoRequest& request);
  void complete(Slot& slot, const Result<size_t>& moved);

  io::File& file_;
  const FileStreamOptions options_;
  const uint64_t blocks_;  // In the span.
  const uint64_t ticket_limit_;
  std::vector<Slot> slots_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<bool> stopped_{false};
  Deadline deadline_;
  StreamMeter meter_;
  StreamEnd end_;
};

// Calls `step` on a thread of its own, again and again: for what has no asynchronous form. The step
// gets the number of the call and returns the bytes that it moved.
class ThreadStream final : public BenchStream {
 public:
  using Step = std::function<Result<uint64_t>(uint64_t call)>;
  // At most `calls_most` calls; 0: only time counts.
  ThreadStream(Step step, uint64_t calls_most) : step_(std::move(step)), calls_most_(calls_most) {}
  ~ThreadStream() override;

  void start(Deadline end) override;
  void stop() override { stopped_.store(true, std::memory_order_relaxed); }
  bool wait_until(Deadline time) override { return end_.wait_until(time); }
  const StreamMeter& meter() const override { return meter_; }
  Deadline finished_at() const override { return end_.finished_at(); }
  std::optional<Error> error() const override { return end_.error(); }

 private:
  void run(Deadline end);

  Step step_;
  const uint64_t calls_most_;
  std::atomic<bool> stopped_{false};
  StreamMeter meter_;
  StreamEnd end_;
  std::thread thread_;
};

}  // namespace penstock::tune
