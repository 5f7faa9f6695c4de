#include "cache/tier_fills.h"

#include <fmt/core.h>

#include <utility>

namespace penstock::cache {

namespace {

using Clock = std::chrono::steady_clock;

// After a fill found no space: time for the keeper to see it, and to evict.
constexpr Nanoseconds kNoSpacePause = std::chrono::seconds(1);

Error off_error() {
  return make_error(ErrorCode::kUnavailable, "the cache directory is off", true);
}

}  // namespace

struct TierFills::Fill final : UnderWay::Item {
  std::function<void()> give_up() override {
    return [owner = fills, answer = std::move(done)] {
      if (answer) answer(make_error(ErrorCode::kTimeout, "the cache directory is too slow", true));
      owner->end_one();
    };
  }

  TierFills* fills = nullptr;
  EntryKey key;
  EntryName name;
  Filling filling;
  FillDone done;
  std::shared_ptr<Drive> drive;
  Clock::time_point start;
};

bool TierFills::paused() const {
  return Clock::now() < no_space_until_.load(std::memory_order_relaxed);
}

bool TierFills::reserve(const EntryName& name) {
  if (!shared_.health.on() || paused()) return false;
  const std::shared_ptr<Drive> drive = shared_.drive.get();
  return drive != nullptr && drive->keeper->reserve(name);
}

void TierFills::cancel(const EntryName& name) {
  if (const std::shared_ptr<Drive> drive = shared_.drive.get()) drive->keeper->cancel_fill(name);
}

void TierFills::begin_one() {
  std::lock_guard lock(mutex_);
  ++unanswered_;
}

// Notifies under the lock: who drains may destroy this as soon as it can take the lock.
void TierFills::end_one() {
  std::lock_guard lock(mutex_);
  if (--unanswered_ == 0) drained_.notify_all();
}

void TierFills::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return unanswered_ == 0; });
}

// Counts the bytes as under way when it succeeds.
Result<void> TierFills::may_begin(uint64_t bytes) {
  if (paused()) return make_error(ErrorCode::kNoSpace, "the cache directory has no space", true);
  if (bytes_under_way_.fetch_add(bytes) + bytes <= shared_.options.fill_bytes_max) return {};
  bytes_under_way_.fetch_sub(bytes);
  return make_error(ErrorCode::kBusy, "too many bytes are on their way to the cache directory",
                    true);
}

// Before it was under way.
void TierFills::refuse(Fill& fill, const Error& error) {
  if (fill.drive != nullptr) fill.drive->keeper->cancel_fill(fill.name);
  if (error.code != ErrorCode::kUnavailable) {
    skipped_.fetch_add(1, std::memory_order_relaxed);
    shared_.metrics.fills_skipped.add();
  }
  if (fill.done) fill.done(error);
}

void TierFills::fill(EntryKey key, const EntryName& name, Filling filling, FillDone done) {
  auto fill = std::make_unique<Fill>();
  fill->fills = this;
  fill->key = std::move(key);
  fill->name = name;
  fill->filling = std::move(filling);
  fill->done = std::move(done);
  fill->drive = shared_.drive.get();
  fill->start = Clock::now();
  if (!shared_.health.on() || fill->drive == nullptr) return refuse(*fill, off_error());
  const uint64_t bytes = fill->filling.file->size();
  if (const Result<void> may = may_begin(bytes); !may.ok()) return refuse(*fill, may.error());
  if (!shared_.under_way.enter(*fill, /*waits=*/true)) {
    bytes_under_way_.fetch_sub(bytes);
    return refuse(*fill, off_error());
  }
  begin_one();
  Fill* const begun = fill.release();
  Workers::Task task = [begun] { begun->fills->run(begun); };
  if (shared_.workers->try_post_long(task)) return;
  skipped_.fetch_add(1, std::memory_order_relaxed);
  shared_.metrics.fills_skipped.add();
  begun->drive->keeper->cancel_fill(begun->name);
  finish(begun, make_error(ErrorCode::kBusy, "too many fills wait for the cache directory", true));
}

void TierFills::run(Fill* fill) {
  Result<void> outcome = publish(*fill);
  if (outcome.ok()) {
    fill->drive->keeper->note_added(fill->name);
    // One that is open is the old file, which keeps its space while it is.
    shared_.open.forget(fill->name.id);
  } else {
    fill->drive->keeper->cancel_fill(fill->name);
    if (!fill->answered()) judge(outcome.error());
  }
  finish(fill, std::move(outcome));
}

Result<void> TierFills::publish(Fill& fill) {
  if (fill.answered() || shared_.stopping || !shared_.health.on()) return off_error();
  shared_.under_way.start(fill);
  const io::Buffer& file = *fill.filling.file;
  const BlockHashes* const hashes = fill.filling.hashes.get();
  seal_entry(file.bytes(), fill.key, hashes != nullptr ? hashes->known() : std::span<uint64_t>());
  PENSTOCK_TRY(fill.drive->directory->publish(fill.name, file.slice()));
  const uint64_t bytes = file.size();
  fills_.fetch_add(1, std::memory_order_relaxed);
  fill_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  shared_.metrics.fills.add();
  shared_.metrics.fill_bytes.add(bytes);
  shared_.metrics.fill_seconds.record(Clock::now() - fill.start);
  return {};
}

void TierFills::judge(const Error& error) {
  if (error.code == ErrorCode::kUnavailable) return;  // off_error().
  // kInvalid: somebody put something in the entry's place that cannot be replaced.
  if (blames_drive(error) && error.code != ErrorCode::kInvalid) return shared_.health.ill(error);
  skipped_.fetch_add(1, std::memory_order_relaxed);
  shared_.metrics.fills_skipped.add();
  if (error.code == ErrorCode::kNoSpace) no_space_until_ = Clock::now() + kNoSpacePause;
}

void TierFills::finish(Fill* fill, Result<void> outcome) {
  const std::unique_ptr<Fill> owned(fill);
  bytes_under_way_.fetch_sub(fill->filling.file->size());
  fill->filling = {};
  if (fill->claim()) {
    if (fill->done) std::exchange(fill->done, nullptr)(std::move(outcome));
    end_one();
  }
  fill->drive.reset();
  shared_.under_way.leave(*fill);
}

void TierFills::drop(const EntryName& name) {
  shared_.count_damage();
  shared_.open.forget(name.id);
  const std::shared_ptr<Drive> drive = shared_.drive.get();
  if (drive == nullptr) return;
  begin_one();
  Workers::Task task = [this, drive, name] {
    shared_.drop_bad(*drive, name);
    end_one();
  };
  if (!shared_.workers->try_post(task)) end_one();
}

}  // namespace penstock::cache
