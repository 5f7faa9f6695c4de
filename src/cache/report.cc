#include "cache/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cache/entry_look.h"
#include "cache/presence.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kSmallFileBytes = 72 * 1024;  // 64 KiB and a header of up to two blocks.

class Reporter {
 public:
  Reporter(CacheDirectory& directory, const ReportOptions& options)
      : directory_(directory), options_(options) {
    report_.path = directory.path();
  }

  Result<DirectoryReport> run() {
    report_.space = PENSTOCK_TRY(directory_.space());
    const std::string state = fmt::format("{}/state", directory_.path());
    if (Result<State> read = read_state(directory_.file_system(), state); read.ok()) {
      report_.state = std::move(*read);
    }
    PENSTOCK_TRY(find_members());
    PENSTOCK_TRY(
        visit_entries(directory_, {.visit = [this](const EntryName& name) { look(name); },
                                   .wanted = [this](const EntryName& name) { return count(name); },
                                   .foreign = [this](const std::string&) { ++report_.foreign; },
                                   .threads = options_.jobs,
                                   .stop = options_.stop}));
    if (options_.stop.stop_requested()) return make_error(ErrorCode::kCancelled, "stopped");
    conclude();
    return std::move(report_);
  }

 private:
  Result<void> find_members() {
    const PresentFiles around = PENSTOCK_TRY(look_around(directory_));
    report_.foreign = around.foreign.size();
    for (const auto& [name, member] : around.members) {
      if (member.presence == Presence::kUnknown) report_.members_unknown = true;
      if (member.presence != Presence::kAlive) continue;
      report_.members.push_back({name, report_.state && report_.state->evictor == name});
    }
    return {};
  }

  // Whether its header is to be read.
  bool count(const EntryName& name) {
    report_.all.entries += 1;
    report_.all.bytes += name.file_bytes();
    if (name.file_bytes() <= kSmallFileBytes) {
      report_.small.entries += 1;
      report_.small.bytes += name.file_bytes();
    }
    if (!options_.objects && report_.looked_at >= options_.headers_max) return false;
    report_.looked_at += 1;
    return true;
  }

  void look(const EntryName& name) {
    const Result<EntryKey> key = identify_entry(directory_, name);
    std::lock_guard lock(mutex_);
    if (!key.ok()) {
      if (key.error().code != ErrorCode::kNotFound) ++report_.damaged;
      return;
    }
    sources_.add(key->version.url, key->length);
    if (options_.objects) add_object(*key);
  }

  void add_object(const EntryKey& key) {
    const auto id = std::pair(key.version.url, key.version.etag);
    auto object = objects_.find(id);
    if (object == objects_.end() && objects_.size() >= options_.objects_max) {
      ++report_.objects_left_out;
      return;
    }
    if (object == objects_.end()) {
      object = objects_.emplace(id, ObjectUse{id.first, id.second, key.version.size}).first;
    }
    object->second.cached_bytes += key.length;
    object->second.entries += 1;
  }

  void conclude() {
    report_.sources = sources_.rows(options_.sources_max);
    const double scale = static_cast<double>(report_.all.entries) /
                         static_cast<double>(std::max<uint64_t>(report_.looked_at, 1));
    if (report_.looked_at < report_.all.entries) {
      for (SourceUse& source : report_.sources) {
        source.entries = static_cast<uint64_t>(static_cast<double>(source.entries) * scale);
        source.bytes = static_cast<uint64_t>(static_cast<double>(source.bytes) * scale);
      }
    }
    for (auto& [id, object] : objects_) report_.objects.push_back(std::move(object));
  }

  CacheDirectory& directory_;
  const ReportOptions& options_;
  std::mutex mutex_;  // For what is below, and what look() counts.
  SourceTable sources_;
  std::map<std::pair<std::string, std::string>, ObjectUse> objects_;
  DirectoryReport report_;
};

}  // namespace

Result<DirectoryReport> report_directory(CacheDirectory& directory, const ReportOptions& options) {
  return Reporter(directory, options).run();
}

}  // namespace penstock::cache
