#include "volume/mover.h"

#include <fmt/core.h>

#include <latch>

namespace penstock::volume {

namespace {

constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(500);
constexpr Nanoseconds kPauseAfterFailure = std::chrono::seconds(2);
constexpr Nanoseconds kTurn = std::chrono::seconds(10);
constexpr size_t kChunksAtOnce = 4096;
constexpr size_t kQueueMax = 64;

}  // namespace

Mover::Mover(meta::Database& database, Packer& packer, const MoverOptions& options)
    : database_(database),
      packer_(packer),
      options_(options),
      health_(
          {.failing = "content could not be moved to the store, and stays in the journal for now",
           .well = "content is moved to the store again"},
          packer.store().description(), *options.failing),
      pool_("volume-pack", std::max<size_t>(options.writeback.parallel, 1), kQueueMax) {}

void Mover::start() {
  thread_ = std::thread([this] { run(); });
}

void Mover::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Mover::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  wake_.notify_all();
}

Result<uint64_t> Mover::waiting_bytes() {
  uint64_t bytes = 0;
  for (const meta::Object& object : PENSTOCK_TRY(database_.segments())) bytes += object.live_bytes;
  return bytes;
}

bool Mover::is_due(uint64_t bytes) {
  if (bytes == 0) return false;
  if (bytes >= options_.writeback.start_bytes) return true;
  // Nothing came lately: the machine may have time.
  if (options_.when_settled && bytes == last_waiting_ && bytes >= packer_.pack_bytes()) return true;
  const Result<meta::Time> oldest = options_.oldest();
  // What cannot be told is not left to wait.
  return !oldest.ok() || options_.now() - *oldest >= options_.writeback.max_age.count();
}

void Mover::run() {
  set_thread_name("volume-move");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kLookEvery, [this] { return stopping_ || hurry_; });
    if (stopping_) return;
    const bool hurried = std::exchange(hurry_, false);
    lock.unlock();
    Result<uint64_t> waiting = waiting_bytes();
    bool due = waiting.ok() && (is_due(*waiting) || (hurried && *waiting > 0));
    if (waiting.ok()) last_waiting_ = *waiting;
    if (due) {
      // What was overwritten or removed meanwhile is forgotten with a commit, and need not be moved.
      options_.commit();
      waiting = waiting_bytes();
      due = waiting.ok() && (is_due(*waiting) || (hurried && *waiting > 0));
    }
    const bool well = !due || move_due(*waiting);
    lock.lock();
    if (well) continue;
    wake_.wait_for(lock, kPauseAfterFailure, [this] { return stopping_; });
  }
}

// Not for long at a time: somebody may wait for its turn, and for not so much.
bool Mover::move_due(uint64_t waiting) {
  const std::lock_guard moving(moving_);
  const Result<void> moved = move_now({.begin_until = deadline_in(kTurn)});
  if (!moved.ok())
    health_.failed(moved.error(), fmt::format("{} wait", format_size(waiting)), begun_);
  return moved.ok();
}

Result<void> Mover::move_all(const MoveOptions& options) {
  const std::lock_guard moving(moving_);
  return move_now(options);
}

Result<void> Mover::move_now(const MoveOptions& options) {
  begun_ = Clock::now();
  PENSTOCK_TRY(merge_all(options));
  while (!is_over(options)) {
    const uint64_t waiting = PENSTOCK_TRY(waiting_bytes());
    if (waiting == 0 || !PENSTOCK_TRY(move_waiting(waiting, options))) return {};
  }
  return {};
}

// Several objects at once, as long as there is so much.
Result<bool> Mover::move_waiting(uint64_t bytes, const MoveOptions& options) {
  const uint64_t objects = (bytes + packer_.pack_bytes() - 1) / packer_.pack_bytes();
  const auto movers = std::min<uint64_t>(objects, pool_.threads());
  Batch batch(PENSTOCK_TRY(database_.segments()));
  std::latch done(static_cast<ptrdiff_t>(movers));
  for (uint64_t i = 0; i < movers; ++i) {
    const bool submitted = pool_.submit([&] {
      while (move_one(batch, options)) {
      }
      done.count_down();
    });
    if (!submitted) done.count_down();
  }
  done.wait();
  packer_.let_go_of_memory();
  if (!batch.result.ok()) begun_ = batch.begun;
  PENSTOCK_TRY(batch.result);
  return batch.taken;
}

bool Mover::move_one(Batch& batch, const MoveOptions& options) {
  const Clock::time_point begun = Clock::now();
  Result<std::vector<meta::Chunk>> chunks = std::vector<meta::Chunk>();
  {
    const std::lock_guard lock(batch.mutex);
    if (!batch.result.ok() || is_over(options)) return false;
    chunks = gather(batch);
    batch.taken |= chunks.ok() && !chunks->empty();
  }
  if (chunks.ok() && chunks->empty()) return false;
  const Result<void> moved =
      chunks.ok() ? packer_.move(std::move(*chunks), options_.io_timeout, options.cancel)
                  : Result<void>(chunks.error());
  if (moved.ok()) {
    health_.well();
    options_.commit();
  }
  const std::lock_guard lock(batch.mutex);
  if (moved.ok() && options.moved) options.moved();
  if (!moved.ok() && batch.result.ok()) {
    batch.result = moved;
    batch.begun = begun;
  }
  return moved.ok();
}

bool Mover::is_over(const MoveOptions& options) {
  if (options.cancel.stop_requested() || Clock::now() >= options.begin_until) return true;
  const std::lock_guard lock(mutex_);
  return stopping_;
}

// What was merged need not be moved, once its small pieces are forgotten: that is with the commit
// after the one that ends their life, unless a version that is kept still has them.
Result<void> Mover::merge_all(const MoveOptions& options) {
  if (!options_.merge) return {};
  while (!is_over(options)) {
    begun_ = Clock::now();
    if (PENSTOCK_TRY(options_.merge(deadline_in(options_.io_timeout))) == 0) return {};
    health_.well();
    options_.commit();
    options_.commit();
  }
  return {};
}

// The oldest ones that nobody has taken, as much as an object takes.
Result<std::vector<meta::Chunk>> Mover::gather(Batch& batch) {
  std::vector<meta::Chunk> gathered;
  uint64_t bytes = 0;
  while (batch.segment < batch.segments.size()) {
    const auto chunks = PENSTOCK_TRY(
        database_.chunks_of(batch.segments[batch.segment].id, batch.from, kChunksAtOnce));
    for (const meta::Chunk& chunk : chunks) {
      if (chunk.references > 0) {
        if (bytes > 0 && bytes + chunk.place.raw > packer_.pack_bytes()) return gathered;
        bytes += chunk.place.raw;
        gathered.push_back(chunk);
      }
      batch.from = chunk.place.offset + 1;
    }
    if (chunks.size() == kChunksAtOnce) continue;
    ++batch.segment;
    batch.from = 0;
  }
  return gathered;
}

}  // namespace penstock::volume
