// The indexes of all shards of a dataset: found where they are kept, made where they are not.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/find.h"
#include "data/index_file.h"
#include "data/index_places.h"
#include "penstock/data.h"

namespace penstock::data {

struct IndexSettings {
  Format format = Format::kTar;  // kTar or kTfRecord.
  std::string index_dir;         // Empty: none.
  bool real_file_system = true;
  size_t threads = 1;
  std::function<void(const OpenProgress&)> on_progress;
  std::stop_token cancel;
  // While indexes are made, those at hand are saved so often: a killed build loses no more. Seldom
  // enough, though, that saving takes less than a tenth of the time.
  std::chrono::nanoseconds save_every = std::chrono::seconds(30);
};

// Threads: after prepare(), all calls from any thread.
// Lifetime: `sources`, `shards` and `fs` outlive it.
class IndexSet {
 public:
  IndexSet(io::FileSystem& fs, const std::vector<Source>& sources,
           const std::vector<FoundShard>& shards, const IndexSettings& settings);
  ~IndexSet();

  // Reads the tables of what is kept, makes what is missing, keeps it where that is possible. An
  // error is that of a shard, or kCancelled; what was made by then is kept.
  Result<void> prepare();

  uint64_t samples(size_t shard) const { return slot(shard).entry.samples; }
  Compression compression(size_t shard) const { return slot(shard).entry.compression; }
  // From memory or the file; from the shard itself when that fails, and kChanged when that has
  // another number of samples by now.
  Result<std::shared_ptr<const ShardIndex>> load(size_t shard);
  // Whether load() reads a file; otherwise the index is in memory in any case.
  bool is_kept(size_t shard);

 private:
  struct Folder;
  // What is known of an object, however often it is in the list of shards.
  struct Slot {
    uint32_t source = 0;
    const store::ObjectInfo* object = nullptr;
    Folder* folder = nullptr;
    bool known = false;
    IndexEntry entry;
    const IndexPlace* place = nullptr;         // Where it is kept.
    std::shared_ptr<const ColumnIndex> index;  // Null unless it is not kept, or was just made.
    std::mutex mutex;                          // Of `index`, `entry` and `place`, after prepare().
  };
  struct Folder {
    std::vector<IndexPlace> places;
    std::vector<Slot*> slots;
    size_t writes_to = 0;  // In `places`; all of them were tried when it is their number.
    std::unique_ptr<IndexLock> lock;
    std::vector<Slot*> unsaved;
  };

  const Slot& slot(size_t shard) const { return *slot_of_[shard]; }
  void look_up(Folder& folder);
  void look_up(Folder& folder, const IndexPlace& place);
  Result<void> take_lock(Folder& folder);
  Result<std::unique_ptr<IndexLock>> wait_for_lock(const IndexPlace& place);
  Result<void> make_missing(std::vector<Folder*> folders);
  bool must_save() const;
  void save(Folder& folder);
  bool save_to(Folder& folder, const IndexPlace& place);
  bool is_wanted(const Folder& folder, const IndexEntry& entry) const;
  Result<std::shared_ptr<const ColumnIndex>> load_kept(Slot& slot);
  Result<std::shared_ptr<const ColumnIndex>> make_again(Slot& slot);

  io::FileSystem& fs_;
  const std::vector<Source>& sources_;
  const std::vector<FoundShard>& shards_;
  const IndexSettings settings_;
  std::deque<Slot> slots_;
  std::deque<Folder> folders_;
  std::vector<Slot*> slot_of_;  // By shard.
  OpenProgress progress_;
  uint64_t unsaved_bytes_ = 0;
  uint64_t saved_bytes_ = 0;
};

}  // namespace penstock::data
