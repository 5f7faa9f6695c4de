#include "cache/clear.h"

#include <algorithm>
#include <mutex>

#include "cache/entry_look.h"

namespace penstock::cache {

namespace {

class Clearing {
 public:
  Clearing(CacheDirectory& directory, const ClearOptions& options)
      : directory_(directory), options_(options) {}

  Result<ClearReport> run() {
    PENSTOCK_TRY(visit_entries(directory_, {.visit = [this](const EntryName& name) { visit(name); },
                                            .threads = options_.jobs,
                                            .stop = options_.stop}));
    report_.stopped = options_.stop.stop_requested();
    return std::move(report_);
  }

 private:
  // Nothing: it is gone, and nobody's any more.
  void visit(const EntryName& name) {
    bool remove = options_.sources.empty();
    bool unreadable = false;
    if (!remove) {
      const Result<EntryKey> key = identify_entry(directory_, name);
      if (!key.ok() && key.error().code == ErrorCode::kNotFound) return;
      remove = key.ok() && is_from(options_.sources, key->version.url);
      unreadable = !key.ok();
    }
    const Result<void> dropped = remove ? options_.drop(name) : Result<void>();
    std::lock_guard lock(mutex_);
    if (unreadable) ++report_.unreadable;
    if (!dropped.ok() && report_.failed++ == 0) report_.first_failure = dropped.error();
    EntrySums& sums = remove && dropped.ok() ? report_.totals.removed : report_.totals.kept;
    sums.entries += 1;
    sums.bytes += name.file_bytes();
    if (options_.on_progress) options_.on_progress(report_.totals);
  }

  CacheDirectory& directory_;
  const ClearOptions& options_;
  std::mutex mutex_;
  ClearReport report_;
};

}  // namespace

bool is_from(const std::vector<Glob>& sources, std::string_view url) {
  return std::ranges::any_of(sources, [&](const Glob& source) {
    for (size_t slash = url.find('/'); slash != std::string_view::npos;
         slash = url.find('/', slash + 1)) {
      if (source.matches(url.substr(0, slash)) || source.matches(url.substr(0, slash + 1))) {
        return true;
      }
    }
    return source.matches(url);
  });
}

Result<ClearReport> clear_entries(CacheDirectory& directory, const ClearOptions& options) {
  return Clearing(directory, options).run();
}

}  // namespace penstock::cache
