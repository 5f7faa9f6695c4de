#include "cache/checkup.h"

#include <algorithm>
#include <mutex>

#include "cache/entry_look.h"
#include "cache/presence.h"
#include "penstock/buffer.h"

namespace penstock::cache {

namespace {

using Kind = CheckupFinding::Kind;
using Clock = std::chrono::steady_clock;

constexpr size_t kFindingsMax = 1000;

class Checkup {
 public:
  Checkup(CacheDirectory& directory, const CheckupOptions& options,
          std::shared_ptr<io::BufferProvider> buffers)
      : directory_(directory), options_(options), buffers_(std::move(buffers)) {}

  Result<CheckupReport> run() {
    const Clock::time_point begin = Clock::now();
    PENSTOCK_TRY(count());
    PENSTOCK_TRY(visit_entries(directory_,
                               {.visit = [this](const EntryName& name) { check(name); },
                                .foreign = [this](const std::string& path) { add_foreign(path); },
                                .threads = options_.jobs,
                                .stop = options_.stop}));
    PENSTOCK_TRY(check_others());
    std::ranges::sort(report_.findings, {}, &CheckupFinding::path);
    report_.time = Clock::now() - begin;
    report_.stopped = options_.stop.stop_requested();
    return std::move(report_);
  }

 private:
  // A look at the names is cheap, and tells how long the rest will take.
  Result<void> count() {
    return directory_.scan([this](const EntryName& name) {
      progress_.entries_total += 1;
      progress_.bytes_total += name.file_bytes();
      return !options_.stop.stop_requested();
    });
  }

  void check(const EntryName& name) {
    const Result<io::Buffer> buffer = buffers_->take(name.file_bytes());
    const Result<void> outcome =
        buffer.ok() ? look(name, buffer->bytes()) : Result<void>(buffer.error());
    const bool gone = !outcome.ok() && outcome.error().code == ErrorCode::kNotFound;
    if (!outcome.ok() && !gone) found_bad(name, outcome.error());
    std::lock_guard lock(mutex_);
    if (outcome.ok()) {
      report_.entries += 1;
      report_.bytes += name.file_bytes();
    }
    progress_.entries += 1;
    progress_.bytes += name.file_bytes();
    // More may have come since they were counted.
    progress_.entries_total = std::max(progress_.entries_total, progress_.entries);
    progress_.bytes_total = std::max(progress_.bytes_total, progress_.bytes);
    if (options_.on_progress) options_.on_progress(progress_);
  }

  Result<void> look(const EntryName& name, std::span<std::byte> memory) {
    Result<EntryKey> key = verify_entry(directory_, name, memory);
    // Who drops an entry removes it first, and then cuts it short for those who have it open: what
    // looked damaged for that reason is not there any more.
    if (!key.ok()) key = verify_entry(directory_, name, memory);
    return key.ok() ? Result<void>() : key.error();
  }

  void found_bad(const EntryName& name, const Error& error) {
    Kind kind = Kind::kUnreadable;
    if (error.code == ErrorCode::kUnsupported) kind = Kind::kNewer;
    if (error.code == ErrorCode::kCorrupt) kind = Kind::kDamaged;
    CheckupFinding finding{kind, directory_.path_of(name), error.detail};
    if (kind == Kind::kDamaged && options_.drop) {
      const Result<void> dropped = options_.drop(name);
      finding.removed = dropped.ok();
      if (!dropped.ok()) finding.why += "; it could not be removed: " + dropped.error().detail;
    }
    add(std::move(finding));
  }

  void add_foreign(const std::string& path) {
    add({Kind::kForeign, path, "it is not part of a cache"});
  }

  // What lies beside the entries.
  Result<void> check_others() {
    const PresentFiles around = PENSTOCK_TRY(look_around(directory_));
    for (const std::string& file : around.foreign) add_foreign(directory_.path() + "/" + file);
    bool any_left = false;
    for (const auto& [name, member] : around.members) {
      any_left = any_left || member.presence == Presence::kDead;
    }
    const bool swept = any_left && options_.sweep && options_.sweep().ok();
    for (const auto& [name, member] : around.members) {
      if (member.presence != Presence::kDead) continue;
      for (const std::string& file : member.files) {
        add({Kind::kLeftover, directory_.path() + "/" + file, "its process is gone", swept});
      }
    }
    return {};
  }

  uint64_t& count_of(Kind kind) {
    switch (kind) {
      case Kind::kDamaged:
        return report_.damaged;
      case Kind::kUnreadable:
        return report_.unreadable;
      case Kind::kNewer:
        return report_.newer;
      case Kind::kForeign:
        return report_.foreign;
      case Kind::kLeftover:
        break;
    }
    return report_.leftovers;
  }

  void add(CheckupFinding finding) {
    std::lock_guard lock(mutex_);
    count_of(finding.kind) += 1;
    if (finding.kind == Kind::kDamaged && finding.removed) report_.removed += 1;
    if (finding.kind != Kind::kLeftover) progress_.problems += 1;
    if (report_.findings.size() < kFindingsMax) report_.findings.push_back(std::move(finding));
  }

  CacheDirectory& directory_;
  const CheckupOptions& options_;
  const std::shared_ptr<io::BufferProvider> buffers_;
  std::mutex mutex_;  // For both.
  CheckupReport report_;
  CheckupProgress progress_;
};

}  // namespace

std::string_view finding_kind_name(Kind kind) {
  switch (kind) {
    case Kind::kDamaged:
      return "damaged";
    case Kind::kUnreadable:
      return "unreadable";
    case Kind::kNewer:
      return "newer";
    case Kind::kForeign:
      return "foreign";
    case Kind::kLeftover:
      break;
  }
  return "leftover";
}

Result<CheckupReport> check_directory(CacheDirectory& directory, const CheckupOptions& options) {
  auto buffers = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = options.memory_bytes}));
  return Checkup(directory, options, std::move(buffers)).run();
}

}  // namespace penstock::cache
