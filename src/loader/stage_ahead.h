// Brings what a loader will read onto the drives of its cache, ahead of its reads, from the order.
//
// A thread walks the order in front of the batches whose reads have begun and tells the cache's stagers
// what comes. Never in the way of others:
// - It goes on only while `is_calm`: the reads of the moment have what they want.
// - It says little at a time, so that it can stop soon.
// - What the rank reads fits into the cache, or comes in random order: each piece is staged once, as
//   long as there is free room, and nothing is thrown out for it.
// - It does not fit, and is read from front to back: what the reader has finished, which comes again
//   only in the next epoch, makes room for what comes next.
// What cannot be staged is counted, and read from the source when its turn comes.
//
// Threads: all calls from any thread, but start() and stop() one at a time. Lifetime: `sequence` outlives
// it; `is_calm` is called, without a lock of ours, until stop() has returned.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/batch_work.h"
#include "loader/sequence.h"

namespace penstock::loader {

class StageAhead {
 public:
  // Pieces of shards are told and finished whole. That of the cache's windows, unless it was told
  // otherwise; it only costs when it is another.
  static constexpr uint64_t kPieceBytes = 4 * kMiB;

  struct Options {
    Shuffle shuffle = Shuffle::kNone;
    uint32_t world_size = 1;
    std::function<bool()> is_calm;
    Nanoseconds tick = std::chrono::milliseconds(20);
  };

  // Null when nothing of the datasets is behind a cache.
  static std::unique_ptr<StageAhead> create(const Sequence& sequence, BatchWork::Datasets datasets,
                                            Options options);
  ~StageAhead() { stop(); }

  // Walks from here on. Requires that it is stopped.
  void start(uint64_t epoch, uint64_t begin);
  // At once; fetches under way are given up. What was staged stays.
  void stop();
  // The reads of one more batch have begun; one more batch was handed out.
  void begun();
  void delivered();

  // Since it was made.
  Staged staged() const;

 private:
  // A piece of a shard, or (loose) all files of a sample.
  struct Piece {
    uint32_t source = 0;
    uint32_t shard = 0;
    uint64_t index = 0;
    auto operator<=>(const Piece&) const = default;
  };
  using Pieces = std::vector<Piece>;
  // What was told for a batch.
  struct Told {
    uint64_t number = 0;  // Of the batch, from start() on.
    Pieces pieces;
  };
  // Where the walk is.
  struct Walk {
    uint64_t epoch = 0;
    Deal deal;
    uint64_t step = 0;
    uint64_t number = 0;
  };
  struct Room {
    bool fits = false;   // All that this rank reads.
    uint64_t free = 0;   // Without throwing anything out.
    uint64_t limit = 0;  // What the cache may use.
  };

  StageAhead(const Sequence& sequence, BatchWork::Datasets datasets, Options options);
  bool make_stagers();
  void run(const std::stop_token& stop);
  bool go_on();
  bool tell_next();
  void skip_to(uint64_t number);
  void finish_delivered();
  bool is_over() const;
  bool each_once(const Room& room) const;
  Room room() const;
  Pieces pieces_of(const BatchOrder& order);
  void add_pieces(uint32_t source, const data::SamplePlace& place, Pieces& out) const;
  void leave_out_told(Pieces& pieces);
  uint64_t bytes_of(const Piece& piece) const;
  std::vector<cache::Range> ranges_of(const Piece& piece) const;
  cache::Stager* stager_of(const Piece& piece) const;
  cache::Stager::Progress progress() const;
  void publish();

  const Sequence& sequence_;
  const BatchWork::Datasets datasets_;
  const Options options_;
  std::shared_ptr<cache::Cache> cache_;
  uint64_t epoch_bytes_ = 0;  // That this rank reads, at most.
  uint64_t pieces_ = 0;       // Of all shards.

  // Of the thread alone, while it runs.
  Staged published_;
  Walk walk_;
  std::deque<Told> told_;
  std::vector<std::vector<std::vector<bool>>> once_;  // By source and shard: the pieces told,
  uint64_t pieces_once_ = 0;                          // and how many they are.

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t begun_ = 0;
  uint64_t delivered_ = 0;
  std::vector<std::vector<std::unique_ptr<cache::Stager>>> stagers_;  // By source and store.
  Staged before_;                                                     // By stagers that are gone.
  std::jthread thread_;
};

}  // namespace penstock::loader
