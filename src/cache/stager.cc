#include "cache/stager.h"

#include <algorithm>

namespace penstock::cache {

namespace {
// How long to wait when the cache has no room: what is finished must be evicted first.
constexpr Nanoseconds kNoRoomPause = std::chrono::milliseconds(100);

// The windows of an object that a range touches: first and one past the last.
std::pair<uint64_t, uint64_t> windows_of(const Range& range, uint64_t window_bytes) {
  const uint64_t begin = std::min(range.offset, range.size);
  const uint64_t end = begin + std::min(range.length, range.size - begin);
  if (begin == end) return {0, 0};
  return {begin / window_bytes, (end - 1) / window_bytes + 1};
}
}  // namespace

StagerImpl::Shared::Shared(CachedStoreImpl& owner, const StageOptions& stage_options)
    : store(owner),
      options(stage_options),
      rate(static_cast<double>(stage_options.bytes_per_second),
           static_cast<double>(
               std::max<uint64_t>(stage_options.bytes_per_second / 10, owner.window_bytes()))),
      pass(owner.enter()) {}

StagerImpl::StagerImpl(CachedStoreImpl& store, const StageOptions& options)
    : shared_(std::make_shared<Shared>(store, options)) {
  store.core().repeat([weak = std::weak_ptr(shared_)] {
    const std::shared_ptr<Shared> shared = weak.lock();
    if (shared) shared->pump();
    return shared != nullptr;
  });
}

StagerImpl::~StagerImpl() {
  const std::stop_source cancel = shared_->cancel;
  std::unique_lock lock(shared_->mutex);
  shared_->queue.clear();
  shared_->pass.reset();
  for (const auto& [id, window] : shared_->windows) {
    const std::shared_ptr<Keeper> keeper = shared_->store.core().tier_for(id).keeper();
    if (window.wanted > 0 && keeper != nullptr) keeper->note_finished(id, /*again=*/true);
  }
  lock.unlock();
  cancel.request_stop();
}

void StagerImpl::expect(std::vector<Range> ranges) {
  {
    std::lock_guard lock(shared_->mutex);
    for (const Range& range : ranges) {
      const VersionRef version = shared_->store.version_of(range);
      const auto [first, last] = windows_of(range, shared_->store.window_bytes());
      for (uint64_t index = first; index < last; ++index) {
        const EntryKey key = shared_->store.window_key(*version, index);
        const EntryId id = entry_id(version->id, key.offset, key.length);
        const auto [at, is_new] = shared_->windows.try_emplace(id);
        ++at->second.wanted;
        if (!is_new) continue;
        at->second.version = version;
        at->second.index = index;
        at->second.bytes = key.length;
        shared_->progress.expected_bytes += key.length;
        shared_->progress.pending_bytes += key.length;
        shared_->queue.push_back(id);
      }
    }
  }
  shared_->pump();
}

void StagerImpl::finished(const Range& range, bool again) {
  const VersionRef version = shared_->store.version_of(range);
  const auto [first, last] = windows_of(range, shared_->store.window_bytes());
  std::unique_lock lock(shared_->mutex);
  for (uint64_t index = first; index < last; ++index) {
    const EntryKey key = shared_->store.window_key(*version, index);
    const EntryId id = entry_id(version->id, key.offset, key.length);
    const auto at = shared_->windows.find(id);
    if (at == shared_->windows.end() || --at->second.wanted > 0) continue;
    using State = Shared::State;
    const State state = at->second.state;
    shared_->progress.finished_bytes += at->second.bytes;
    if (Shared::is_pending(at->second)) shared_->progress.pending_bytes -= at->second.bytes;
    if (state == State::kStaged || state == State::kUnderWay) {
      shared_->ahead_bytes -= at->second.bytes;
    }
    shared_->windows.erase(at);  // In the queue it is skipped when its turn comes.
    const std::shared_ptr<Keeper> keeper = shared_->store.core().tier_for(id).keeper();
    if (keeper != nullptr) keeper->note_finished(id, again);
  }
  lock.unlock();
  shared_->pump();
}

Stager::Progress StagerImpl::progress() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->progress;
}

uint64_t StagerImpl::Shared::ahead_limit() const {
  return std::min(options.ahead_bytes, store.core().limit_bytes() / 2);
}

void StagerImpl::Shared::pump() {
  std::unique_lock lock(mutex);
  while (start_next(lock)) {
  }
}

// False when there is nothing to start now.
bool StagerImpl::Shared::start_next(std::unique_lock<std::mutex>& lock) {
  if (!pass || queue.empty() || under_way >= options.parallel) return false;
  const EntryId id = queue.front();
  const auto at = windows.find(id);
  if (at == windows.end()) {  // Was read before it could be staged.
    queue.pop_front();
    return true;
  }
  if (std::chrono::steady_clock::now() < not_before) return false;
  if (ahead_bytes + at->second.bytes > ahead_limit()) return false;
  queue.pop_front();
  at->second.state = State::kUnderWay;
  ahead_bytes += at->second.bytes;
  ++under_way;
  not_before = deadline_in(rate.reserve(static_cast<double>(at->second.bytes)));
  const VersionRef version = at->second.version;
  const uint64_t index = at->second.index;
  const PassRef hold = pass;
  lock.unlock();
  if (const std::shared_ptr<Keeper> keeper = store.core().tier_for(id).keeper())
    keeper->note_expected(id);
  store::CallOptions call;
  call.cancel = cancel.get_token();
  store.stage_window(version, index, /*verify=*/false, std::move(call),
                     [self = shared_from_this(), hold, id](const Result<uint64_t>& fetched) {
                       self->staged(id, fetched);
                     });
  lock.lock();
  return true;
}

void StagerImpl::Shared::staged(const EntryId& id, const Result<uint64_t>& fetched) {
  std::lock_guard lock(mutex);
  --under_way;
  if (fetched.ok()) progress.fetched_bytes += *fetched;
  const auto at = windows.find(id);
  if (at == windows.end()) return;  // Finished meanwhile.
  Window& window = at->second;
  if (fetched.ok()) {
    window.state = State::kStaged;
    progress.staged_bytes += window.bytes;
    progress.pending_bytes -= window.bytes;
    return;
  }
  ahead_bytes -= window.bytes;
  const bool no_room =
      fetched.error().code == ErrorCode::kNoSpace || fetched.error().code == ErrorCode::kBusy;
  if (no_room && pass) {
    window.state = State::kQueued;
    queue.push_front(id);
    not_before = deadline_in(kNoRoomPause);
    return;
  }
  window.state = State::kFailed;
  progress.failed_bytes += window.bytes;
  progress.pending_bytes -= window.bytes;
}

std::unique_ptr<Stager> CachedStoreImpl::make_stager(const StageOptions& options) {
  return std::make_unique<StagerImpl>(*this, options);
}

}  // namespace penstock::cache
