#include "cache/tier_shared.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace penstock::cache {

namespace {

// Opening and publishing are short, but block: enough threads that two slow ones are not all.
constexpr size_t kThreads = 6;
constexpr size_t kQueueLimit = 1024;

size_t open_files_limit(uint32_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min<size_t>(wanted, limit.rlim_cur / 4);
}

}  // namespace

TierMetrics& TierMetrics::global() {
  Metrics& all = Metrics::global();
  static TierMetrics metrics{
      all.histogram("penstock_cache_hit_seconds", "Time of reads answered from a cache directory"),
      all.histogram("penstock_cache_fill_seconds", "Time of fills, from asked for to published"),
      all.counter("penstock_cache_fills_total", "Entries written to cache directories"),
      all.counter("penstock_cache_fill_bytes_total", "Bytes written to cache directories"),
      all.counter("penstock_cache_fills_skipped_total",
                  "Fills not tried: too many under way, or no space"),
      all.counter("penstock_cache_reads_skipped_total",
                  "Reads not tried because too many entries were being opened"),
      all.counter("penstock_cache_verification_failures_total",
                  "Entries that were damaged, and dropped"),
  };
  return metrics;
}

TierShared::TierShared(io::FileSystem& fs, TierOptions tier_options,
                       std::shared_ptr<io::BufferProvider> buffer_provider)
    : options(std::move(tier_options)),
      buffers(std::move(buffer_provider)),
      metrics(TierMetrics::global()),
      workers(std::make_shared<Workers>(kThreads, kQueueLimit)),
      open(open_files_limit(options.open_files), kQueueLimit),
      drive(fs, options, workers, [this](const Error& error) { health.ill(error); }),
      health({options.path, options.slow_after, options.retry_every},
             {[this] { return drive.heal(); }, [this] { return check_drive(); },
              [this] { open.clear(); }}),
      under_way(options.slow_after,
                {[this] { return health.on(); },
                 [this] {
                   health.ill(make_error(ErrorCode::kTimeout,
                                         fmt::format("a read or write took longer than {}",
                                                     format_duration(options.slow_after))));
                 }}) {
  health.start();
}

void TierShared::stop() {
  stopping = true;
  under_way.close();
  health.stop();
  open.clear();
  drive.close();
  workers->stop();
}

Result<void> TierShared::check_drive() {
  struct Check final : UnderWay::Item {
    std::function<void()> give_up() override {
      return [] {};
    }
  } item;
  if (!under_way.enter(item)) return {};
  Result<void> outcome = drive.check();
  item.claim();
  under_way.leave(item);
  return outcome;
}

Result<void> TierShared::drop_file(const Drive& from, const EntryName& name) {
  open.forget(name.id);
  from.keeper->note_dropped(name);
  return from.directory->drop(name);
}

void TierShared::drop_bad(const Drive& from, const EntryName& name) {
  const Result<void> dropped = drop_file(from, name);
  if (!dropped.ok()) health.ill(dropped.error());
}

void TierShared::drop_later(std::shared_ptr<Drive> from, const EntryName& name) {
  workers->post([this, from = std::move(from), name] { (void)drop_file(*from, name); });
}

void TierShared::count_damage() {
  verification_failures.fetch_add(1, std::memory_order_relaxed);
  metrics.verification_failures.add();
}

}  // namespace penstock::cache
