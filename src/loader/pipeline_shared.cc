#include "loader/pipeline_shared.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace penstock::loader {

namespace {

constexpr double kMemorySpeed =
    1.5e9;  // Bytes a second; no drive's page comes that fast to a reader.
// Of tokens, which are widened in that time too, by a thread that may have had to wait for its CPU; from
// a drive they come far slower than this, again and again.
constexpr double kTokenSpeed = 0.3e9;
constexpr int kSlowTokens = 4;
constexpr uint64_t kTellingBytes = 32 * kKiB;

}  // namespace

void Pipeline::Shared::push(Turn turn) {
  const std::lock_guard lock(mutex);
  if (stopping) return;
  turns.push_back(std::move(turn));
  filled.notify_one();
}

bool Pipeline::Shared::pop(Turn& turn) {
  std::unique_lock lock(mutex);
  if (turns.empty() && !stopping) {
    const Clock::time_point begin = Clock::now();
    filled.wait(lock, [this] { return stopping || !turns.empty(); });
    current->worker_wait.add(Clock::now() - begin);
  }
  if (stopping) return false;
  turn = std::move(turns.front());
  turns.pop_front();
  return true;
}

void Pipeline::Shared::stop() {
  const std::lock_guard lock(mutex);
  stopping = true;
  turns.clear();
  filled.notify_all();
  done.notify_all();
}

void Pipeline::Shared::unit_done(BatchWork& batch) {
  if (batch.units_left.fetch_sub(1) > 1) return;
  batch.finish();
  const std::lock_guard lock(mutex);
  batch.complete = true;
  // Who waits for another would wake up in vain.
  if (waiting > 1 || awaited == &batch) done.notify_all();
}

Result<void> Pipeline::Shared::wait_for(const BatchWork& batch, Deadline deadline) {
  std::unique_lock lock(mutex);
  const auto ready = [&] { return batch.complete.load() || stopping; };
  Deadline say = deadline_in(kSayAfter);
  awaited = &batch;
  ++waiting;
  while (!done.wait_until(lock, std::min(deadline, say), ready) && Clock::now() < deadline) {
    log_warn("a batch is not there yet: storage or decoding is stuck, or very slow",
             {{"epoch", std::to_string(batch.epoch())},
              {"step", std::to_string(batch.step())},
              {"units_left", std::to_string(batch.units_left.load())}});
    say = deadline_in(kSayAfter);
  }
  --waiting;
  if (batch.complete.load()) return {};
  if (stopping) return make_error(ErrorCode::kClosed, "the loader is closed");
  return make_error(ErrorCode::kTimeout, "no batch yet", true);
}

void Pipeline::Shared::read_begins() {
  const std::lock_guard lock(mutex);
  ++reads;
}

void Pipeline::Shared::read_ends(WorkRef batch, uint32_t unit, uint32_t piece,
                                 const Result<void>& outcome) {
  if (!outcome.ok()) batch->fail_piece(piece, outcome.error());
  begun(std::move(batch), unit);
  const std::lock_guard lock(mutex);
  if (--reads == 0) done.notify_all();
}

void Pipeline::Shared::begun(WorkRef batch, uint32_t unit) {
  if (batch->reads_left[unit].fetch_sub(1) == 1) push({std::move(batch), unit});
}

void Pipeline::Shared::wait_for_reads() {
  std::unique_lock lock(mutex);
  done.wait(lock, [this] { return reads == 0; });
}

std::shared_ptr<Stats> Pipeline::Shared::stats() const {
  const std::lock_guard lock(mutex);
  return current;
}

void Pipeline::Shared::note_tokens(uint64_t bytes, Clock::duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  if (static_cast<double>(bytes) >= kTokenSpeed * seconds) {
    slow_tokens_.store(0, std::memory_order_relaxed);
  } else if (slow_tokens_.fetch_add(1, std::memory_order_relaxed) + 1 >= kSlowTokens) {
    slow_tokens_.store(0, std::memory_order_relaxed);
    cold_.store(kCold, std::memory_order_relaxed);
  }
}

void Pipeline::Shared::note_read(uint64_t bytes, Clock::duration took) {
  if (bytes < kTellingBytes) return;
  const double seconds = std::chrono::duration<double>(took).count();
  if (static_cast<double>(bytes) < kMemorySpeed * seconds) {
    cold_.store(kCold, std::memory_order_relaxed);
  } else if (cold_.load(std::memory_order_relaxed) > 0) {
    cold_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace penstock::loader
