#include "cache/cache_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "cache/get_call.h"
#include "cache/options.h"
#include "penstock/frame.h"

namespace penstock::cache {

namespace {

constexpr size_t kTaskThreads = 2;
constexpr Nanoseconds kWatchEvery = std::chrono::milliseconds(10);
constexpr Nanoseconds kIdleEvery = std::chrono::milliseconds(50);
constexpr Nanoseconds kFirstTickMax = std::chrono::milliseconds(500);

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdU;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53U;
  return x ^ (x >> 33);
}

TierOptions tier_options(const CacheOptions& options, const std::string& path) {
  TierOptions tier;
  tier.path = path;
  tier.keeper.quota = options.quota;
  tier.keeper.free_floor = options.free_floor;
  tier.mode = options.mode;
  tier.slow_after = options.slow_after;
  tier.fill_bytes_max = options.memory_bytes / 4;
  return tier;
}

// The keeper first finds out how much may be kept: what is read first is worth keeping too.
void wait_for_room(Tier& tier) {
  const Deadline until = deadline_in(kFirstTickMax);
  while (std::chrono::steady_clock::now() < until) {
    const std::shared_ptr<Keeper> keeper = tier.keeper();
    if (keeper && (keeper->room_bytes() > 0 || keeper->status().granted)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Result<std::shared_ptr<Cache>> Cache::open(const CacheOptions& given) {
  CacheOptions options = given;
  const bool is_local = options.file_system == nullptr;
  for (std::string& path : options.directories) path = normal_directory(path, is_local);
  PENSTOCK_TRY(check_options(options));
  io::FileSystem* fs = options.file_system;
  if (fs == nullptr) fs = PENSTOCK_TRY(io::process_file_system());
  auto* local = dynamic_cast<io::LocalFileSystem*>(fs);
  std::shared_ptr<io::BufferProvider> buffers = PENSTOCK_TRY(
      io::BufferProvider::create({.budget_bytes = options.memory_bytes,
                                  .registrar = local != nullptr ? local->registrar() : nullptr}));
  const auto core = std::make_shared<CacheCore>(options, *fs, std::move(buffers));
  PENSTOCK_TRY(core->check_directories(*fs));
  return std::shared_ptr<Cache>(core);
}

CacheCore::CacheCore(const CacheOptions& options, io::FileSystem& fs,
                     std::shared_ptr<io::BufferProvider> buffers)
    : options_(options),
      buffers_(std::move(buffers)),
      windows_(options.memory_bytes / 2),
      tasks_("cache-call", kTaskThreads) {
  for (const std::string& path : options_.directories) {
    tiers_.push_back(Tier::open(fs, tier_options(options_, path), buffers_));
    seeds_.push_back(codec::hash_bytes(std::as_bytes(std::span(path))));
  }
  timer_ = std::thread([this] {
    set_thread_name("cache-timer");
    run_timer();
  });
}

CacheCore::~CacheCore() {
  {
    std::lock_guard lock(timer_mutex_);
    stopping_ = true;
  }
  timer_wakes_.notify_all();
  timer_.join();
  tiers_.clear();  // Their fills still report to us.
  tasks_.finish();
}

Result<void> CacheCore::check_directories(io::FileSystem& fs) {
  Result<void> first;
  std::vector<std::string> usable;  // Those that hang are not looked at any more.
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const Result<void> tried = tiers_[i]->wait_tried(deadline_in(options_.slow_after));
    if (tried.ok()) {
      usable.push_back(options_.directories[i]);
      wait_for_room(*tiers_[i]);
      continue;
    }
    const ErrorCode code = tried.error().code;
    if (code == ErrorCode::kInvalid || code == ErrorCode::kUnsupported) return tried;
    if (first.ok()) first = tried;
  }
  return usable.empty() ? first : check_apart(fs, usable);
}

Tier& CacheCore::tier_for(const EntryId& id) {
  size_t best = 0;
  uint64_t best_score = 0;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const uint64_t score = mix(id.high ^ seeds_[i]);
    if (i != 0 && score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return *tiers_[best];
}

void CacheCore::settle(Deadline deadline) {
  drain();
  for (const auto& tier : tiers_) {
    if (const std::shared_ptr<Keeper> keeper = tier->keeper()) (void)keeper->settle(deadline);
  }
}

uint64_t CacheCore::limit_bytes() const {
  uint64_t limit = 0;
  for (const auto& tier : tiers_) limit += tier->stats().keeper.limit_bytes;
  return limit;
}

void CacheCore::set_quota(SizeOrPercent quota) {
  for (const auto& tier : tiers_) tier->set_quota(quota);
}

CacheStats CacheCore::stats() const {
  CacheStats sum;
  sum.hits = counters_.hits.value();
  sum.hit_bytes = counters_.hit_bytes.value();
  sum.memory_hits = counters_.memory_hits.value();
  sum.memory_hit_bytes = counters_.memory_hit_bytes.value();
  sum.misses = counters_.misses.value();
  sum.miss_bytes = counters_.miss_bytes.value();
  sum.source_bytes = counters_.source_bytes.value();
  sum.memory_peak_bytes = buffers_->stats().peak_held_bytes;
  for (const auto& tier : tiers_) {
    const TierStats one = tier->stats();
    sum.fills += one.fills;
    sum.fill_bytes += one.fill_bytes;
    sum.fills_skipped += one.fills_skipped;
    sum.verification_failures += one.verification_failures;
    sum.evictions += one.keeper.evictions;
    sum.used_bytes += one.keeper.used_bytes;
    sum.limit_bytes += one.keeper.limit_bytes;
    sum.entries += one.keeper.entries;
    sum.directories_off += one.on ? 0 : 1;
  }
  return sum;
}

void CacheCore::drain() {
  {
    std::unique_lock lock(loads_mutex_);
    loads_done_.wait(lock, [this] { return loads_ == 0; });
  }
  for (const auto& tier : tiers_) tier->drain();
}

void CacheCore::load_started() {
  std::lock_guard lock(loads_mutex_);
  ++loads_;
}

void CacheCore::load_finished() {
  std::lock_guard lock(loads_mutex_);
  if (--loads_ == 0) loads_done_.notify_all();
}

Result<io::Buffer> CacheCore::take(size_t bytes) {
  while (true) {
    Result<io::Buffer> buffer = buffers_->try_take(bytes);
    if (buffer.ok() || buffer.error().code != ErrorCode::kBusy) return buffer;
    if (!windows_.forget_oldest()) return buffer;
  }
}

void CacheCore::when_memory(std::function<void()> retry) {
  // A window that is only kept may be all that is in the way.
  if (windows_.forget_oldest()) return post(std::move(retry));
  when_freed(std::move(retry));
}

void CacheCore::when_freed(std::function<void()> retry) {
  std::lock_guard lock(memory_mutex_);
  waiting_.push_back(std::move(retry));
}

void CacheCore::memory_freed() {
  std::function<void()> retry;
  {
    std::lock_guard lock(memory_mutex_);
    if (waiting_.empty()) return;
    retry = std::move(waiting_.front());
    waiting_.pop_front();
  }
  post(std::move(retry));
}

void CacheCore::watch(std::weak_ptr<GetCall> call) {
  {
    std::lock_guard lock(timer_mutex_);
    watched_.push_back(std::move(call));
  }
  timer_wakes_.notify_all();
}

void CacheCore::repeat(std::function<bool()> check) {
  std::lock_guard lock(timer_mutex_);
  repeated_.push_back(std::move(check));
}

void CacheCore::check_calls(std::vector<std::weak_ptr<GetCall>>& calls) {
  std::erase_if(calls, [](const std::weak_ptr<GetCall>& weak) {
    const std::shared_ptr<GetCall> call = weak.lock();
    return !call || call->expire_if_due();
  });
}

void CacheCore::run_timer() {
  std::vector<std::weak_ptr<GetCall>> calls;
  std::vector<std::function<bool()>> checks;
  Deadline next_checks = deadline_in(kIdleEvery);
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    timer_wakes_.wait_for(lock, watched_.empty() && calls.empty() ? kIdleEvery : kWatchEvery);
    std::move(watched_.begin(), watched_.end(), std::back_inserter(calls));
    watched_.clear();
    std::move(repeated_.begin(), repeated_.end(), std::back_inserter(checks));
    repeated_.clear();
    lock.unlock();
    check_calls(calls);
    if (std::chrono::steady_clock::now() >= next_checks) {
      next_checks = deadline_in(kIdleEvery);
      std::erase_if(checks, [](const std::function<bool()>& check) { return !check(); });
      memory_freed();  // Should every hint have come too early.
    }
    lock.lock();
  }
}

}  // namespace penstock::cache
