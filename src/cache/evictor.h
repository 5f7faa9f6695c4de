// The one process that decides what a cache directory keeps, while it holds DIR/evictor.lock.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/allowance.h"
#include "cache/directory.h"
#include "cache/leases.h"
#include "cache/note_buffer.h"
#include "cache/pace.h"
#include "cache/policy.h"
#include "cache/roll.h"
#include "cache/room.h"
#include "cache/space_watch.h"
#include "cache/state_file.h"

namespace penstock::cache {

std::string state_path(const CacheDirectory& directory);
std::string index_path(const CacheDirectory& directory);
std::string evictor_lock_path(const CacheDirectory& directory);
// kBusy when another has it. Where a drive was unmounted, trying makes a lock on the file system below
// it: that is removed again, and an error.
Result<std::unique_ptr<io::FileLock>> lock_evictor(const CacheDirectory& directory);

// What happened in this process since the last tick.
struct OwnNews {
  NoteBuffer::Drained notes;
  Standing standing;  // After these notes.
  Terms terms;
  Tally tally;
  bool filled = false;  // Or is about to.
};

// How this process comes to go by another grant: `decide` is asked for it, and told how the process
// stands, while nothing can be reserved. It must not wait.
using Regrant = std::function<void(const std::function<Grant(const Standing&)>& decide)>;

class Evictor final : private Roll::Listener {
 public:
  // `lock` is that of the evictor. The others outlive it.
  Evictor(CacheDirectory& directory, std::unique_ptr<io::FileLock> lock, SpaceWatch& space,
          const Pace& pace, Regrant regrant);
  ~Evictor() override;

  struct Outcome {
    bool known = false;
    uint64_t used_bytes = 0;
    uint64_t limit_bytes = 0;
    uint64_t entries = 0;
    uint64_t evictions = 0;  // In this tick.
    uint32_t members = 0;
    uint64_t index_bytes = 0;
    bool more = false;     // To be done at once.
    bool deposed = false;  // Another has taken over: the directory was made anew underneath.
  };

  // What may be filled before anything was read but the last state. Then load(), then ticks.
  Outcome start(const OwnNews& news, SteadyTime now, TickErrors& errors);
  void load(TickErrors& errors);
  Outcome tick(OwnNews news, SteadyTime now, TickErrors& errors);

  // Whether what is on the drive is to be counted.
  bool scan_due(SteadyTime now) const;
  // Counts it. Calls `between` often; stops when that is false. Ticks may run inside it.
  void scan(const std::function<bool()>& between, TickErrors& errors);

  // Leaves what the next one needs. No tick may follow.
  void hand_over(SteadyTime now, TickErrors& errors);

 private:
  static constexpr auto kIndexEvery = std::chrono::minutes(1);
  static constexpr auto kTotalsEvery = std::chrono::seconds(10);
  static constexpr auto kScanEvery = std::chrono::hours(1);

  void on_note(const std::string& member, const Note& note) override;
  void on_tally(const Tally& tally) override;
  void on_found(const std::string& member) override;
  void on_standing(const std::string& member, const Standing& standing) override;
  void on_gone(const std::string& member, bool in_order) override;
  void on_gap() override { gap_ = true; }

  bool is_self(const std::string& member) const { return member == directory_.member(); }
  void begin_totals();
  bool still_evictor(TickErrors& errors);
  void measure(const OwnNews& news, TickErrors& errors);
  uint64_t used_bytes() const;
  uint64_t room_bytes() const;
  uint32_t evict(uint64_t in_flight, TickErrors& errors, bool& more);
  bool drop(const EntryName& name, TickErrors& errors);
  Outcome conclude(const OwnNews& news, TickErrors& errors);
  Grant share(uint64_t own_counted, const Standing& own);
  State describe() const;
  void publish(State state, TickErrors& errors);
  Result<void> read_index();
  void save_index(TickErrors& errors);
  std::string temporary(int which) const;

  CacheDirectory& directory_;
  std::unique_ptr<io::FileLock> lock_;
  SpaceWatch& space_;
  const Pace pace_;
  const Regrant regrant_;
  const std::unique_ptr<Policy> policy_;
  Room room_{*policy_};
  Leases leases_;
  State inherited_;  // From the evictor before; empty when there is none.
  std::unique_ptr<Roll> roll_;
  SteadyTime now_{};

  // While nothing is known: what was used when this began, and what came and went since.
  bool known_ = false;
  bool has_basis_ = false;
  uint64_t basis_bytes_ = 0;
  bool distrusted_ = false;  // The one before did not leave in order.
  uint64_t came_bytes_ = 0;
  uint64_t went_bytes_ = 0;

  uint64_t quota_ = 0;
  uint64_t floor_limit_ = 0;  // What the floor of free space allows.
  uint64_t limit_ = 0;        // The smaller of both.
  uint64_t grain_ = 0;        // The largest entry seen.
  bool own_active_ = false;
  // When the drive was last asked for its free space.
  uint64_t used_when_asked_ = 0;
  uint64_t space_answers_ = 0;
  bool ask_space_ = false;  // `used` has jumped since.
  uint64_t counter_ = 0;
  State published_;
  SteadyTime published_at_{};
  Totals totals_;
  bool ever_published_ = false;
  SteadyTime checked_{};

  bool scanning_ = false;
  bool gap_ = false;                               // Something on the drive may not be counted,
  uint64_t unaccounted_bytes_ = 0;                 // at most so much by members that were killed.
  std::unordered_set<EntryId, EntryIdHash> gone_;  // While scanning: not to be taken for there.
  SteadyTime scan_not_before_{};
  SteadyTime scan_at_{};  // The next without a reason.

  SteadyTime index_at_{};
  uint64_t index_clock_ = 0;  // Of the policy, and the entries, when it was written.
  uint64_t index_entries_ = 0;
  std::chrono::steady_clock::duration index_pause_ = kIndexEvery;
};

}  // namespace penstock::cache
