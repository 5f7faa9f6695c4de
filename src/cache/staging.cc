#include <fmt/core.h>

#include <algorithm>

#include "cache/cached_store.h"
#include "store/blocking_store.h"

namespace penstock::cache {

namespace {

constexpr uint32_t kStagedAtOnce = 16;  // Windows of one range.
constexpr uint32_t kRefusalsMax = 200;  // In a row; each takes 50 ms, for up to 16 at once.

Error no_room(const std::string& key, bool later) {
  return make_error(ErrorCode::kNoSpace, fmt::format("the cache has no room for more of '{}'", key),
                    later);
}

// async_stage of a range: its windows, a few at a time.
class StageCall : public std::enable_shared_from_this<StageCall> {
 public:
  StageCall(CachedStoreImpl& store, const Range& range, bool verify, store::CallOptions options,
            store::Done<uint64_t> done)
      : store_(store),
        pass_(store.enter()),
        version_(store.version_of(range)),
        verify_(verify),
        options_(std::move(options)),
        done_(std::move(done)) {
    const uint64_t begin = std::min(range.offset, range.size);
    const uint64_t end = begin + std::min(range.length, range.size - begin);
    next_ = begin / store.window_bytes();
    end_ = begin == end ? next_ : (end - 1) / store.window_bytes() + 1;
  }

  // Starts what may be started; ends the call when nothing is left.
  void pump() {
    std::unique_lock lock(mutex_);
    again_ = true;
    if (std::exchange(pumping_, true)) return;
    while (std::exchange(again_, false)) {
      while (const std::optional<uint64_t> window = next_window()) {
        lock.unlock();
        stage(*window);
        lock.lock();
      }
    }
    pumping_ = false;
    if (under_way_ > 0 || ended_) return;
    ended_ = true;
    const Result<uint64_t> result = error_ ? Result<uint64_t>(*error_) : fetched_;
    lock.unlock();
    done_(result);
  }

 private:
  std::optional<uint64_t> next_window() {
    if (const Result<void> on = store::check_call(options_); !on.ok() && !error_) {
      error_ = on.error();
    }
    if (error_ || next_ >= end_ || under_way_ >= kStagedAtOnce) return std::nullopt;
    ++under_way_;
    return next_++;
  }

  void stage(uint64_t window) {
    store_.stage_window(version_, window, verify_, options_,
                        [self = shared_from_this(), window](const Result<uint64_t>& fetched) {
                          self->staged(window, fetched);
                        });
  }

  void staged(uint64_t window, const Result<uint64_t>& fetched) {
    if (!fetched.ok() && fetched.error().code == ErrorCode::kBusy &&
        store::check_call(options_).ok()) {
      store_.core().when_memory([self = shared_from_this(), window] { self->stage(window); });
      return;
    }
    if (!fetched.ok() && fetched.error().code == ErrorCode::kNoSpace && fetched.error().retryable &&
        may_ask_again()) {
      store_.core().repeat([self = shared_from_this(), window] {
        self->stage(window);
        return false;
      });
      return;
    }
    {
      std::lock_guard lock(mutex_);
      if (fetched.ok()) fetched_ += *fetched;
      if (fetched.ok()) refusals_ = 0;
      if (!fetched.ok() && !error_) error_ = fetched.error();
      --under_way_;
    }
    pump();
  }

  // Room is handed out in steps: a fast source can be ahead of them, with the cache far from full.
  bool may_ask_again() {
    const CacheStats stats = store_.core().stats();
    // Up to a sixteenth is kept free for those invited.
    const bool full = stats.used_bytes + stats.limit_bytes / 8 > stats.limit_bytes;
    std::lock_guard lock(mutex_);
    return !full && store::check_call(options_).ok() && ++refusals_ < kRefusalsMax;
  }

  CachedStoreImpl& store_;
  const PassRef pass_;
  const VersionRef version_;
  const bool verify_;
  const store::CallOptions options_;
  const store::Done<uint64_t> done_;

  std::mutex mutex_;
  uint64_t next_ = 0;  // Windows.
  uint64_t end_ = 0;
  uint32_t under_way_ = 0;
  uint64_t fetched_ = 0;
  uint32_t refusals_ = 0;  // In a row.
  std::optional<Error> error_;
  bool pumping_ = false;
  bool again_ = false;
  bool ended_ = false;
};

}  // namespace

// Staged by its own request, beside what readers load into memory: staging must not push that out.
void CachedStoreImpl::stage_window(const VersionRef& version, uint64_t window, bool verify,
                                   store::CallOptions options, store::Done<uint64_t> done) {
  const Place place = place_of(*version, window);
  if (version->info.etag.empty() || !can_be_entry(place.key)) {
    return done(make_error(ErrorCode::kInvalid,
                           fmt::format("'{}' cannot be cached: it has no etag, or its name or etag "
                                       "is too long",
                                       version->info.key)));
  }
  const uint32_t look_at = verify ? place.key.length : std::min(place.key.length, kBlockBytes);
  core_->tier_for(place.id).read(
      place.key, version->id, 0, look_at,
      [this, pass = enter(), version, place, options = std::move(options),
       done](const Result<TierBytes>& got) {
        if (got.ok()) return done(uint64_t{0});
        if (got.error().code == ErrorCode::kBusy) return done(got.error());
        fetch_to_drive(version, place, options, done);
      });
}

void CachedStoreImpl::fetch_to_drive(const VersionRef& version, const Place& place,
                                     const store::CallOptions& call, store::Done<uint64_t> done) {
  const EntryKey& key = place.key;
  Tier& tier = core_->tier_for(place.id);
  if (!tier.reserve(key, version->id)) {
    const TierStats stats = tier.stats();
    // There may be room for it later, but not in a directory that is off, or too small for it.
    const bool later = stats.on && file_bytes(key) <= stats.keeper.limit_bytes;
    return done(no_room(version->info.key, later));
  }
  Result<io::Buffer> taken = core_->take(file_bytes(key));
  if (!taken.ok()) {
    tier.cancel_fill(key, version->id);
    return done(taken.error());
  }
  const auto buffer = std::make_shared<io::Buffer>(std::move(*taken));
  store::GetOptions options;
  static_cast<store::CallOptions&>(options) = call;
  options.if_match = version->info.etag;
  options.size = version->info.size;
  source_->async_get(
      version->info.key, key.offset, buffer->bytes().subspan(header_bytes(key), key.length),
      std::move(options),
      [this, pass = enter(), version, place, buffer, done](const Result<store::GetResult>& got) {
        Tier& drive = core_->tier_for(place.id);
        const Result<void> checked = check_window(got, *version, place.key.length);
        if (!checked.ok()) {
          drive.cancel_fill(place.key, version->id);
          return done(checked.error());
        }
        core_->counters().source_bytes.add(place.key.length);
        fill_staged(pass, version, place, buffer, done);
      });
}

// A drive that is busy is waited for: what was fetched and not kept would be fetched again.
void CachedStoreImpl::fill_staged(const PassRef& pass, const VersionRef& version,
                                  const Place& place, const std::shared_ptr<io::Buffer>& buffer,
                                  const store::Done<uint64_t>& done) {
  core_->tier_for(place.id).fill(
      place.key, version->id, buffer,
      [this, pass, version, place, held = buffer, done](const Result<void>& filled) mutable {
        if (!filled.ok() && filled.error().code == ErrorCode::kBusy) {
          return core_->when_freed([this, pass, version, place, held, done] {
            if (core_->tier_for(place.id).reserve(place.key, version->id)) {
              return fill_staged(pass, version, place, held, done);
            }
            done(no_room(version->info.key, /*later=*/true));
          });
        }
        held.reset();
        core_->memory_freed();
        if (filled.ok()) return done(uint64_t{place.key.length});
        Error error = filled.error();
        // The drive itself said so: the quota has nothing to do with it.
        if (error.code == ErrorCode::kNoSpace) error.retryable = false;
        done(error);
      });
}

void CachedStoreImpl::async_stage(Range range, bool verify, store::CallOptions options,
                                  store::Done<uint64_t> done) {
  const auto call =
      std::make_shared<StageCall>(*this, range, verify, std::move(options), std::move(done));
  core_->post([call] { call->pump(); });
}

}  // namespace penstock::cache
