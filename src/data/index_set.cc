#include "data/index_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/log.h"
#include "data/index_build.h"
#include "data/sample_names.h"
#include "data/scan.h"

namespace penstock::data {

namespace {

constexpr size_t kFoldersAtOnce = 64;  // Each holds a lock, which is a file.
constexpr uint64_t kUnsavedBytesMax = 256 * kMiB;
constexpr auto kLockRetry = std::chrono::milliseconds(50);

std::string folder_of(const std::string& key) {
  return key.substr(0, key.size() - base_name(key).size());
}

}  // namespace

IndexSet::IndexSet(io::FileSystem& fs, const std::vector<Source>& sources,
                   const std::vector<FoundShard>& shards, const IndexSettings& settings)
    : fs_(fs), sources_(sources), shards_(shards), settings_(settings) {
  std::map<std::pair<uint32_t, std::string>, Slot*> slots;
  std::map<std::pair<uint32_t, std::string>, Folder*> folders;
  for (const FoundShard& shard : shards_) {
    Slot*& slot = slots[{shard.source, shard.object.key}];
    if (slot == nullptr) {
      const Source& source = sources_[shard.source];
      const std::string name = folder_of(shard.object.key);
      Folder*& folder = folders[{shard.source, name}];
      if (folder == nullptr) {
        folder = &folders_.emplace_back();
        folder->places =
            index_places(source, name, settings_.index_dir, settings_.real_file_system);
      }
      slot = &slots_.emplace_back();
      slot->source = shard.source;
      slot->object = &shard.object;
      slot->folder = folder;
      slot->entry = {.name = std::string(base_name(shard.object.key)),
                     .version = source.version_of(shard.object),
                     .size = shard.object.size,
                     .format = settings_.format};
      folder->slots.push_back(slot);
    }
    slot_of_.push_back(slot);
  }
}

IndexSet::~IndexSet() = default;

Result<void> IndexSet::prepare() {
  progress_.shards = slots_.size();
  std::vector<Folder*> missing;
  for (Folder& folder : folders_) {
    look_up(folder);
    for (const Slot* slot : folder.slots) {
      if (slot->known) {
        ++progress_.shards_indexed;
      } else {
        progress_.bytes += slot->object->size;
        if (missing.empty() || missing.back() != &folder) missing.push_back(&folder);
      }
    }
  }
  // In the order of their locks: two who wait for each other's would wait for ever.
  std::ranges::sort(missing, {}, [](const Folder* folder) {
    return folder->places.empty() ? std::string() : folder->places[0].path;
  });
  for (size_t i = 0; i < missing.size(); i += kFoldersAtOnce) {
    const size_t count = std::min(kFoldersAtOnce, missing.size() - i);
    const auto begin = missing.begin() + static_cast<ptrdiff_t>(i);
    const Result<void> made = make_missing({begin, begin + static_cast<ptrdiff_t>(count)});
    for (Folder* folder : missing) folder->lock.reset();
    PENSTOCK_TRY(made);
  }
  return {};
}

void IndexSet::look_up(Folder& folder) {
  for (const IndexPlace& place : folder.places) look_up(folder, place);
}

void IndexSet::look_up(Folder& folder, const IndexPlace& place) {
  if (std::ranges::all_of(folder.slots, [](const Slot* slot) { return slot->known; })) return;
  const Result<IndexTable> table = read_index_table(fs_, place.path);
  if (!table.ok()) {
    if (table.error().code == ErrorCode::kNotFound) return;
    log_once(LogLevel::kWarn, "data-index." + place.path, "an index is not used",
             {{"index", place.path}, {"reason", table.error().to_string()}});
    return;
  }
  if (table->folder != place.folder) return;  // Of another folder whose hash is the same.
  for (Slot* slot : folder.slots) {
    const IndexEntry* const entry = slot->known ? nullptr : table->find(slot->entry.name);
    if (entry == nullptr || !entry->same_shard(slot->entry)) continue;
    slot->entry = *entry;
    slot->place = &place;
    slot->known = true;
  }
}

Result<std::unique_ptr<IndexLock>> IndexSet::wait_for_lock(const IndexPlace& place) {
  bool told = false;
  while (true) {
    Result<std::unique_ptr<IndexLock>> lock = IndexLock::try_take(fs_, place);
    if (lock.ok() || lock.error().code != ErrorCode::kBusy) return lock;
    if (!std::exchange(told, true)) {
      log_info("another process makes this index; waiting for it", {{"index", place.path}});
    }
    if (settings_.cancel.stop_requested()) {
      return make_error(ErrorCode::kCancelled, "waiting for the index of a dataset was cancelled");
    }
    std::this_thread::sleep_for(kLockRetry);
  }
}

// Of the first place from `writes_to` on that can be written. None: the index is kept in memory.
Result<void> IndexSet::take_lock(Folder& folder) {
  folder.lock.reset();
  for (; folder.writes_to < folder.places.size(); ++folder.writes_to) {
    const IndexPlace& place = folder.places[folder.writes_to];
    if (!place.writable) continue;
    // A newer version's is not ours to replace.
    const Result<IndexTable> table = read_index_table(fs_, place.path);
    if (!table.ok() && table.error().code == ErrorCode::kUnsupported) continue;
    Result<std::unique_ptr<IndexLock>> lock = wait_for_lock(place);
    if (lock.ok()) {
      folder.lock = std::move(*lock);
      return {};
    }
    if (lock.error().code == ErrorCode::kCancelled) return lock.error();
    log_debug("an index cannot be kept here",
              {{"index", place.path}, {"reason", lock.error().to_string()}});
  }
  log_once(
      LogLevel::kWarn, "data-index-memory",
      "the index of a dataset can be kept nowhere and is made anew each time; give an index_dir "
      "that can be written",
      {{"folder", folder.places.empty() ? "" : folder.places[0].path}});
  return {};
}

Result<void> IndexSet::make_missing(std::vector<Folder*> folders) {
  std::vector<Slot*> missing;
  for (Folder* folder : folders) {
    PENSTOCK_TRY(take_lock(*folder));
    std::vector<Slot*> unknown;
    std::ranges::copy_if(folder->slots, std::back_inserter(unknown),
                         [](const Slot* slot) { return !slot->known; });
    look_up(*folder);  // Somebody may have made it while we waited.
    for (Slot* slot : unknown) {
      if (slot->known) {
        ++progress_.shards_indexed;
        progress_.bytes_done += slot->object->size;
      } else {
        missing.push_back(slot);
      }
    }
  }
  // Large ones first: the last to finish is then a small one.
  std::ranges::stable_sort(missing, std::greater<>(),
                           [](Slot* slot) { return slot->object->size; });

  const auto scan = [&](size_t i, const std::stop_token& stop, std::atomic<uint64_t>& bytes) {
    const Slot& slot = *missing[i];
    return scan_shard(sources_[slot.source], *slot.object, settings_.format, stop, &bytes);
  };
  const auto take = [&](size_t i, ScannedShard scanned) {
    Slot& slot = *missing[i];
    slot.entry.samples = scanned.index->samples();
    slot.entry.compression = scanned.compression;
    slot.index = std::move(scanned.index);
    slot.known = true;
    slot.folder->unsaved.push_back(&slot);
    unsaved_bytes_ += slot.index->memory_bytes();
    ++progress_.shards_indexed;
  };
  const auto save_all = [&] {
    for (Folder* folder : folders) save(*folder);
    saved_bytes_ += std::exchange(unsaved_bytes_, 0);
  };
  const auto tell = [&, before = progress_.bytes_done](uint64_t bytes_done) {
    progress_.bytes_done = before + bytes_done;
    if (settings_.on_progress) settings_.on_progress(progress_);
  };
  return run_index_build({.shards = missing.size(),
                          .threads = settings_.threads,
                          .save_every = settings_.save_every,
                          .cancel = settings_.cancel,
                          .scan = scan,
                          .take = take,
                          .must_save = [this] { return must_save(); },
                          .save = save_all,
                          .tell = tell});
}

// Indexes must not fill the memory; but saving writes all of them, so it is done less and less often.
bool IndexSet::must_save() const {
  return unsaved_bytes_ > std::max(kUnsavedBytesMax, saved_bytes_ / 4);
}

// What cannot be saved stays in memory.
void IndexSet::save(Folder& folder) {
  while (!folder.unsaved.empty() && folder.lock) {
    if (save_to(folder, folder.places[folder.writes_to])) return;
    ++folder.writes_to;
    if (!take_lock(folder).ok()) return;
  }
}

bool IndexSet::save_to(Folder& folder, const IndexPlace& place) {
  std::vector<NewIndex> added;
  for (const Slot* slot : folder.unsaved) added.push_back({slot->entry, slot->index});
  const Result<IndexTable> table =
      write_index_file(fs_, place.path, place.folder, added,
                       [&](const IndexEntry& entry) { return is_wanted(folder, entry); });
  if (!table.ok()) {
    log_once(LogLevel::kWarn, "data-index-save." + place.path, "an index could not be saved",
             {{"index", place.path}, {"reason", table.error().to_string()}});
    return false;
  }
  for (Slot* slot : std::exchange(folder.unsaved, {})) {
    slot->place = &place;
    slot->index.reset();
  }
  // The blocks that were there before have moved.
  for (Slot* slot : folder.slots) {
    const IndexEntry* const entry = slot->place == &place ? table->find(slot->entry.name) : nullptr;
    if (entry != nullptr && entry->same_shard(slot->entry)) slot->entry = *entry;
  }
  return true;
}

// Entries of files that are gone would stay for ever.
bool IndexSet::is_wanted(const Folder& folder, const IndexEntry& entry) const {
  const Slot& any = *folder.slots[0];
  const Source& source = sources_[any.source];
  if (source.root.empty()) return true;
  const Result<io::FileInfo> info =
      fs_.stat(source.path_of(folder_of(any.object->key) + entry.name));
  return info.ok() || info.error().code != ErrorCode::kNotFound;
}

Result<std::shared_ptr<const ShardIndex>> IndexSet::load(size_t shard) {
  Slot& slot = *slot_of_[shard];
  std::lock_guard lock(slot.mutex);
  if (slot.index) return std::shared_ptr<const ShardIndex>(slot.index);
  Result<std::shared_ptr<const ColumnIndex>> index = load_kept(slot);
  if (!index.ok()) {
    log_warn("the index of a shard is not readable any more; it is made again",
             {{"index", slot.place->path},
              {"shard", slot.entry.name},
              {"reason", index.error().to_string()}});
    index = make_again(slot);
  }
  return std::shared_ptr<const ShardIndex>(PENSTOCK_TRY(std::move(index)));
}

bool IndexSet::is_kept(size_t shard) {
  Slot& slot = *slot_of_[shard];
  std::lock_guard lock(slot.mutex);
  return !slot.index;
}

Result<std::shared_ptr<const ColumnIndex>> IndexSet::load_kept(Slot& slot) {
  Result<std::shared_ptr<const ColumnIndex>> index = read_index(fs_, slot.place->path, slot.entry);
  if (index.ok()) return index;
  // Somebody may have saved more to it, so that blocks lie elsewhere now.
  const IndexTable table = PENSTOCK_TRY(read_index_table(fs_, slot.place->path));
  const IndexEntry* const entry = table.find(slot.entry.name);
  const bool same = entry != nullptr && entry->same_shard(slot.entry) &&
                    entry->samples == slot.entry.samples && table.folder == slot.place->folder;
  if (!same) return index;
  index = read_index(fs_, slot.place->path, *entry);
  if (index.ok()) slot.entry = *entry;
  return index;
}

Result<std::shared_ptr<const ColumnIndex>> IndexSet::make_again(Slot& slot) {
  const ScannedShard scanned = PENSTOCK_TRY(
      scan_shard(sources_[slot.source], *slot.object, settings_.format, /*cancel=*/{}, nullptr));
  if (scanned.index->samples() != slot.entry.samples) {
    return make_error(ErrorCode::kChanged,
                      fmt::format("{} has {} samples, and had {} when the dataset was opened",
                                  sources_[slot.source].name_of(slot.object->key),
                                  scanned.index->samples(), slot.entry.samples));
  }
  slot.index = scanned.index;
  return slot.index;
}

}  // namespace penstock::data
