#include <algorithm>

#include "cache/cached_store.h"

namespace penstock::cache {

namespace {

// Windows read ahead of a sequential reader at most.
constexpr uint32_t kAheadMax = 16;
// Entries opened ahead of one whose reads are large.
constexpr uint32_t kOpenAhead = 2;

}  // namespace

void CachedStoreImpl::load(Load wanted, MemoryWindows::Waiter waiter) {
  const auto load = std::make_shared<Load>(std::move(wanted));
  WindowBytes ready;
  const MemoryWindows::Waiter waiting = waiter;
  switch (core_->windows().join(load->place.id, std::move(waiter), &ready)) {
    case MemoryWindows::Joined::kReady:
      if (load->reserved) {
        core_->tier_for(load->place.id).cancel_fill(load->place.key, load->version->id);
      }
      if (waiting) waiting(ready);
      return;
    case MemoryWindows::Joined::kWaiting:
      if (load->reserved) {
        core_->tier_for(load->place.id).cancel_fill(load->place.key, load->version->id);
      }
      return;
    case MemoryWindows::Joined::kStarted:
      core_->load_started();
      if (load->look_on_drive) return load_from_drive(load);
      return load_from_source(load);
  }
}

void CachedStoreImpl::end_load(const std::shared_ptr<Load>& load, Result<WindowBytes> outcome) {
  core_->windows().finish(load->place.id, std::move(outcome));
  core_->memory_freed();
  core_->load_finished();
}

void CachedStoreImpl::load_from_drive(const std::shared_ptr<Load>& load) {
  const EntryKey& key = load->place.key;
  core_->tier_for(load->place.id)
      .read(key, load->version->id, 0, key.length, [this, load](Result<TierBytes> got) {
        if (got.ok()) {
          const auto held = std::make_shared<TierBytes>(std::move(*got));
          return end_load(load, WindowBytes{.holder = held, .data = held->data});
        }
        if (got.error().code == ErrorCode::kBusy && !load->may_wait) {
          return end_load(load, got.error());
        }
        if (got.error().code == ErrorCode::kBusy) {
          return core_->when_memory([this, load] { load_from_drive(load); });
        }
        load_from_source(load);
      });
}

void CachedStoreImpl::load_from_source(const std::shared_ptr<Load>& load) {
  const EntryKey& key = load->place.key;
  Result<io::Buffer> taken = core_->take(file_bytes(key));
  if (!taken.ok() && (taken.error().code != ErrorCode::kBusy || !load->may_wait)) {
    if (load->reserved) core_->tier_for(load->place.id).cancel_fill(key, load->version->id);
    return end_load(load, taken.error());
  }
  if (!taken.ok()) return core_->when_memory([this, load] { load_from_source(load); });
  if (!load->reserved) {
    load->reserved = core_->tier_for(load->place.id).reserve(key, load->version->id);
  }
  const auto buffer = std::make_shared<io::Buffer>(std::move(*taken));
  const std::span<std::byte> data = buffer->bytes().subspan(header_bytes(key), key.length);
  store::GetOptions options;
  options.if_match = load->version->info.etag;
  options.size = load->version->info.size;
  source_->async_get(
      load->version->info.key, key.offset, data, std::move(options),
      [this, load, buffer](Result<store::GetResult> got) { loaded(load, buffer, got); });
}

void CachedStoreImpl::loaded(const std::shared_ptr<Load>& load, std::shared_ptr<io::Buffer> buffer,
                             const Result<store::GetResult>& got) {
  const EntryKey& key = load->place.key;
  Tier& tier = core_->tier_for(load->place.id);
  const Result<void> checked = check_window(got, *load->version, key.length);
  if (!checked.ok()) {
    if (load->reserved) tier.cancel_fill(key, load->version->id);
    buffer.reset();
    return end_load(load, checked.error());
  }
  core_->counters().source_bytes.add(key.length);
  const std::span<const std::byte> data = buffer->bytes().subspan(header_bytes(key), key.length);
  const auto unread = std::make_shared<std::atomic<uint64_t>>(key.length);
  const auto hashes = std::make_shared<BlockHashes>();
  // Those who wait first: they need not wait for the drive.
  core_->windows().finish(load->place.id, WindowBytes{.holder = buffer,
                                                      .data = data,
                                                      .from_source = true,
                                                      .unread = unread,
                                                      .hashes = load->reserved ? hashes : nullptr});
  if (load->reserved) {
    tier.fill(key, load->version->id, {buffer, hashes},
              [core = core_.get(), id = load->place.id, unread](const Result<void>& filled) {
                // Read to its end, and on the drive: its memory serves the next one better.
                if (filled.ok() && *unread == 0) core->windows().forget(id);
                core->memory_freed();
              });
  }
  buffer.reset();
  core_->memory_freed();
  core_->load_finished();
}

// What a sequential reader will ask for next, within what memory there is to spare. Large reads of
// what is on a drive keep that busy without help, if only their entries are open when they come.
void CachedStoreImpl::read_ahead(const CallRef& call) {
  const VersionRef& version = call->version();
  const uint64_t end = call->offset() + call->into().size();
  if (call->pattern().run < 2 || end >= version->info.size) return;
  const bool only_open = !call->pattern().cold && call->into().size() >= kSmallRead;
  const auto affordable = static_cast<uint32_t>(core_->options().memory_bytes / 4 / window_bytes());
  const uint32_t growing = uint32_t{1} << std::min(call->pattern().run - 2, 8U);
  const uint32_t ahead = only_open ? kOpenAhead : std::min({growing, kAheadMax, affordable});
  const uint64_t last = (version->info.size - 1) / window_bytes();
  const uint64_t first = (end + window_bytes() - 1) / window_bytes();
  for (uint64_t window = first; window <= last && window < first + ahead; ++window) {
    const Place place = place_of(*version, window);
    if (core_->windows().contains(place.id)) continue;
    if (only_open) {
      core_->tier_for(place.id).open_ahead(place.key, version->id);
    } else {
      load({.pass = enter(), .version = version, .place = place, .may_wait = false}, {});
    }
  }
}

}  // namespace penstock::cache
