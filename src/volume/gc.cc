#include "volume/gc.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace penstock::volume {

namespace {

constexpr uint64_t kPurgedRows = 10'000;
constexpr size_t kObjectsAtOnce = 1'000;
constexpr size_t kChunksAtOnce = 4'096;
constexpr meta::ObjectId kBeforeData{0, UINT32_MAX};  // Segments of the journal come first.

void note_deleted(uint64_t objects, uint64_t bytes) {
  VolumeMetrics::global().gc_objects.add(objects);
  VolumeMetrics::global().gc_bytes.add(bytes);
}

Result<void> check_stop(const GcOptions& options) {
  if (!options.cancel.stop_requested()) return {};
  return make_error(ErrorCode::kCancelled, "garbage collection was stopped; it can go on later");
}

}  // namespace

Result<GcReport> Gc::run(const GcOptions& options) {
  report_ = {};
  if (!options.dry_run) PENSTOCK_TRY(purge(options));
  PENSTOCK_TRY(compact(options));
  return remove_unused(options);
}

Result<GcReport> Gc::sweep(const GcOptions& options) {
  report_ = {};
  return remove_unused(options);
}

Result<GcReport> Gc::remove_unused(const GcOptions& options) {
  PENSTOCK_TRY(condemn(options));
  if (!options.dry_run) PENSTOCK_TRY(remove_condemned(options));
  PENSTOCK_TRY(remove_orphans(options));
  return report_;
}

Result<void> Gc::purge(const GcOptions& options) {
  bool more = true;
  while (more) {
    PENSTOCK_TRY(check_stop(options));
    const meta::Purged purged = PENSTOCK_TRY(database_.purge(now_(), kPurgedRows));
    report_.rows += purged.rows;
    more = purged.more;
    PENSTOCK_TRY(commit_());
  }
  return {};
}

Result<void> Gc::visit(const std::function<Result<void>(const meta::Object&)>& visit) {
  meta::ObjectId after = kBeforeData;
  while (true) {
    const auto objects = PENSTOCK_TRY(database_.objects(after, kObjectsAtOnce));
    if (objects.empty()) return {};
    for (const meta::Object& object : objects) PENSTOCK_TRY(visit(object));
    after = objects.back().id;
  }
}

Result<void> Gc::compact(const GcOptions& options) {
  return visit([&](const meta::Object& object) -> Result<void> {
    PENSTOCK_TRY(check_stop(options));
    const auto enough =
        static_cast<uint64_t>(options.compact_below * static_cast<double>(object.bytes));
    if (object.state != meta::ObjectState::kStored || object.live_bytes == 0 ||
        object.live_bytes >= enough) {
      return {};
    }
    ++report_.compacted;
    report_.moved_bytes += object.live_bytes;
    return options.dry_run ? Result<void>() : compact_object(object, options);
  });
}

Result<void> Gc::compact_object(const meta::Object& object, const GcOptions& options) {
  std::vector<meta::Chunk> live;
  uint64_t from = 0;
  while (true) {
    const auto chunks = PENSTOCK_TRY(database_.chunks_of(object.id, from, kChunksAtOnce));
    std::ranges::copy_if(chunks, std::back_inserter(live),
                         [](const meta::Chunk& chunk) { return chunk.references > 0; });
    if (chunks.size() < kChunksAtOnce) break;
    from = chunks.back().place.offset + 1;
  }
  PENSTOCK_TRY(packer_.move(std::move(live), options.io_timeout, options.cancel));
  return commit_();
}

// What no chunk lies in; and what a dead owner began to store, which nothing can refer to.
Result<void> Gc::condemn(const GcOptions& options) {
  PENSTOCK_TRY(visit([&](const meta::Object& object) -> Result<void> {
    const bool unused = object.state == meta::ObjectState::kStored && object.live_bytes == 0;
    const bool abandoned =
        object.state == meta::ObjectState::kPending && object.id.session < database_.session();
    if (!unused && !abandoned) return {};
    ++report_.deleted;
    report_.freed_bytes += object.bytes;
    if (options.dry_run) return {};
    return database_.set_object(object.id, meta::ObjectState::kCondemned, object.bytes);
  }));
  return options.dry_run ? Result<void>() : commit_();
}

Result<void> Gc::remove_condemned(const GcOptions& options) {
  std::vector<meta::Object> condemned;
  PENSTOCK_TRY(visit([&](const meta::Object& object) -> Result<void> {
    if (object.state == meta::ObjectState::kCondemned) condemned.push_back(object);
    return {};
  }));
  for (size_t at = 0; at < condemned.size(); at += kObjectsAtOnce) {
    PENSTOCK_TRY(check_stop(options));
    const auto count = std::min(kObjectsAtOnce, condemned.size() - at);
    PENSTOCK_TRY(remove_keys({condemned.begin() + static_cast<ptrdiff_t>(at),
                              condemned.begin() + static_cast<ptrdiff_t>(at + count)}));
  }
  return {};
}

Result<void> Gc::remove_keys(const std::vector<meta::Object>& objects) {
  std::vector<std::string> keys;
  keys.reserve(objects.size());
  for (const meta::Object& object : objects) keys.push_back(object_key(space_, object.id));
  const auto failures = PENSTOCK_TRY(packer_.store().remove(keys));
  if (!failures.empty()) {
    return failures.front().error.with_context(
        fmt::format("{} of {} objects could not be deleted", failures.size(), keys.size()));
  }
  PENSTOCK_TRY(packer_.store().flush());
  for (const meta::Object& object : objects) {
    note_deleted(1, object.bytes);
    PENSTOCK_TRY(database_.drop_object(object.id));
  }
  return commit_();
}

// Objects that a crash kept the database from hearing of: of owners that are no more.
Result<void> Gc::remove_orphans(const GcOptions& options) {
  std::set<std::string> known;
  PENSTOCK_TRY(visit([&](const meta::Object& object) -> Result<void> {
    known.insert(object_key(space_, object.id));
    return {};
  }));
  const std::string prefix = object_key_prefix(space_);
  const std::string own = object_key(space_, {database_.session(), 0});
  std::vector<std::string> orphans;
  uint64_t orphan_bytes = 0;
  PENSTOCK_TRY(store::for_each_object(packer_.store(), prefix, [&](const store::ObjectInfo& info) {
    if (info.key >= own) return false;  // Keys sort by session: this one's are being made.
    if (!known.contains(info.key)) {
      orphans.push_back(info.key);
      orphan_bytes += info.size;
    }
    return !options.cancel.stop_requested();
  }));
  report_.orphans = orphans.size();
  report_.freed_bytes += orphan_bytes;
  if (options.dry_run || orphans.empty()) return {};
  const auto failures = PENSTOCK_TRY(packer_.store().remove(orphans));
  if (!failures.empty()) return failures.front().error;
  note_deleted(orphans.size(), orphan_bytes);
  return {};
}

}  // namespace penstock::volume
