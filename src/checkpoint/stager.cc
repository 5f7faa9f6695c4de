#include "checkpoint/stager.h"

#include <algorithm>
#include <atomic>

#include "checkpoint/piece_copier.h"

namespace penstock::checkpoint {

namespace {

constexpr uint64_t kArenaBytesMin = 4 * kPieceBytes;
// Copied from a device in one go, and waited for once.
constexpr size_t kDeviceBatch = 8;

uint32_t threads_of(uint32_t asked) {
  if (asked != 0) return asked;
  return static_cast<uint32_t>(std::clamp<size_t>(available_cores(), 1, 8));
}

// Among the threads that copy, each of which keeps it alive.
struct Copying {
  std::shared_ptr<Job> job;
  std::shared_ptr<io::BufferProvider> arena;
  std::atomic<size_t> begun = 0;
  std::atomic<size_t> next = 0;
  std::atomic<size_t> copied = 0;
  std::atomic<size_t> threads_left = 0;
};

// Memory for the next pieces: one, or several where they come from a device and room is left.
Result<std::vector<io::Buffer>> take_batch(Copying& copying) {
  const size_t count = copying.job->plan.pieces.size();
  const size_t most = copying.job->plan.on_device ? kDeviceBatch : 1;
  std::vector<io::Buffer> batch;
  while (batch.size() < most && copying.begun.fetch_add(1, std::memory_order_relaxed) < count) {
    Result<io::Buffer> buffer =
        batch.empty() ? copying.arena->take(kPieceBytes) : copying.arena->try_take(kPieceBytes);
    if (!buffer.ok() && buffer.error().code == ErrorCode::kBusy) {
      copying.begun.fetch_sub(1, std::memory_order_relaxed);
      break;
    }
    batch.push_back(PENSTOCK_TRY(std::move(buffer)));
  }
  return batch;
}

Result<void> copy_pieces(Copying& copying) {
  Job& job = *copying.job;
  PieceCopier copier;
  while (true) {
    // First the memory, then the numbers: whoever has a number can finish it, and so the writer, who
    // takes them in order, never waits for one that waits for memory.
    std::vector<io::Buffer> batch = PENSTOCK_TRY(take_batch(copying));
    if (batch.empty() || job.pieces.failure()) return {};
    const size_t first = copying.next.fetch_add(batch.size(), std::memory_order_relaxed);
    for (size_t i = 0; i < batch.size(); ++i) {
      const Piece& piece = job.plan.pieces[first + i];
      PENSTOCK_TRY(copier.copy(job.plan.files[piece.file], piece,
                               batch[i].bytes().first(padded(piece.bytes))));
    }
    PENSTOCK_TRY(copier.wait());
    for (size_t i = 0; i < batch.size(); ++i) job.pieces.put(first + i, std::move(batch[i]));
    copying.copied.fetch_add(batch.size(), std::memory_order_relaxed);
  }
}

void copy_or_fail(Copying& copying) {
  const Result<void> copied = copy_pieces(copying);
  if (!copied.ok()) copying.job->pieces.fail(copied.error());
}

}  // namespace

Stager::Stager(uint64_t arena_bytes, uint32_t threads, io::PinPolicy pin)
    : arena_bytes_(arena_bytes), pin_(pin), copiers_("ckpt-copy", threads_of(threads), 64) {}

// As large as the state, or as it may be.
uint64_t Stager::wanted(uint64_t bytes) const {
  return std::max(arena_bytes_ != 0 ? arena_bytes_ : bytes, kArenaBytesMin);
}

bool Stager::is_large_enough(uint64_t bytes) const {
  return arena_ != nullptr && arena_->stats().budget_bytes >= wanted(bytes);
}

Result<void> Stager::make_arena(uint64_t bytes) {
  arena_.reset();
  arena_ = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = wanted(bytes), .pin = pin_}));
  return {};
}

Result<void> Stager::stage(const std::shared_ptr<Job>& job) {
  const auto copying = std::make_shared<Copying>();
  copying->job = job;
  copying->arena = arena_;
  std::atomic<size_t>& left = copying->threads_left;
  left = copiers_.threads() - 1;
  for (size_t i = 1; i < copiers_.threads(); ++i) {
    copiers_.submit([copying] {
      copy_or_fail(*copying);
      copying->threads_left.fetch_sub(1);
      copying->threads_left.notify_all();
    });
  }
  copy_or_fail(*copying);
  for (size_t now = left.load(); now != 0; now = left.load()) left.wait(now);
  job->staged = true;
  // What goes wrong later is told by the handle.
  if (copying->copied == job->plan.pieces.size()) return {};
  return job->durable(kNoDeadline);
}

}  // namespace penstock::checkpoint
