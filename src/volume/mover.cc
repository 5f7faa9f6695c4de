#include "volume/mover.h"

#include <fmt/core.h>

#include "base/log.h"

namespace penstock::volume {

namespace {

constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(500);
constexpr Nanoseconds kPauseAfterFailure = std::chrono::seconds(2);
constexpr size_t kChunksAtOnce = 4096;

}  // namespace

Mover::Mover(meta::Database& database, Packer& packer, const MoverOptions& options)
    : database_(database), packer_(packer), options_(options) {}

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
    const Result<uint64_t> waiting = waiting_bytes();
    const bool due = waiting.ok() && (is_due(*waiting) || (hurried && *waiting > 0));
    const Result<void> moved = due ? move_all(deadline_in(options_.io_timeout)) : Result<void>();
    lock.lock();
    if (moved.ok()) continue;
    log_warn("content could not be moved to the store, and stays in the journal for now",
             {{"store", packer_.store().description()}, {"error", moved.error().to_string()}});
    wake_.wait_for(lock, kPauseAfterFailure, [this] { return stopping_; });
  }
}

Result<void> Mover::move_all(Deadline deadline) {
  const std::lock_guard moving(moving_);
  PENSTOCK_TRY(merge_all(deadline));
  while (PENSTOCK_TRY(move_some(deadline))) {
    if (is_stopping()) return {};
    options_.commit();
  }
  return {};
}

bool Mover::is_stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

// What was merged need not be moved, once its small pieces are forgotten: that is with the commit
// after the one that ends their life, unless a version that is kept still has them.
Result<void> Mover::merge_all(Deadline deadline) {
  if (!options_.merge) return {};
  while (!is_stopping()) {
    const Deadline step = std::min(deadline, deadline_in(options_.io_timeout));
    if (PENSTOCK_TRY(options_.merge(step)) == 0) return {};
    options_.commit();
    options_.commit();
  }
  return {};
}

Result<bool> Mover::move_some(Deadline deadline) {
  std::vector<meta::Chunk> chunks = PENSTOCK_TRY(gather());
  if (chunks.empty()) return false;
  PENSTOCK_TRY(
      packer_.move(std::move(chunks), std::min(deadline, deadline_in(options_.io_timeout))));
  return true;
}

// The oldest ones, as much as an object takes.
Result<std::vector<meta::Chunk>> Mover::gather() {
  std::vector<meta::Chunk> gathered;
  uint64_t bytes = 0;
  for (const meta::Object& object : PENSTOCK_TRY(database_.segments())) {
    if (object.live_bytes == 0) continue;
    uint64_t from = 0;
    while (true) {
      const auto chunks = PENSTOCK_TRY(database_.chunks_of(object.id, from, kChunksAtOnce));
      for (const meta::Chunk& chunk : chunks) {
        if (chunk.references == 0) continue;
        if (bytes > 0 && bytes + chunk.place.raw > packer_.pack_bytes()) return gathered;
        bytes += chunk.place.raw;
        gathered.push_back(chunk);
      }
      if (chunks.size() < kChunksAtOnce) break;
      from = chunks.back().place.offset + 1;
    }
  }
  return gathered;
}

}  // namespace penstock::volume
