// What the thread of a keeper does: as an ordinary member, and as the evictor when it is that.
// Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "cache/directory.h"
#include "cache/evictor.h"
#include "cache/keeper.h"
#include "cache/keeper_desk.h"
#include "cache/member_log.h"
#include "cache/members.h"
#include "cache/pace.h"
#include "cache/space_watch.h"

namespace penstock::cache {

class KeeperWork {
 public:
  // All outlive it.
  KeeperWork(CacheDirectory& directory, const KeeperOptions& options, KeeperDesk& desk);

  // One tick, and a scan when one is due. True: there is more to be done at once.
  bool round();
  // The last thing: writes what is left to say, and lets go of the locks.
  void finish();

 private:
  bool tick();
  bool member_tick(TickErrors& errors);
  bool evictor_tick(TickErrors& errors);
  void scan();
  void step_down();

  Result<void> join();
  void elect(TickErrors& errors);
  std::optional<Terms> terms(TickErrors& errors);

  void read_state_file(TickErrors& errors);
  Result<void> write_log(const Terms& terms, bool last);
  void add_to_log(const OwnNews& news, const Terms& terms, bool fresh_file);
  bool is_news(const Standing& standing) const;

  void apply(const Evictor::Outcome& outcome, bool granted);
  void tell(const KeeperStatus& status);
  void report(const TickErrors& errors);

  struct Gauges {
    Counter& evictions;
    Gauge& used_bytes;
    Gauge& limit_bytes;
    Gauge& entries;
  };
  static Gauges make_gauges(const std::string& directory);

  CacheDirectory& directory_;
  const KeeperOptions& options_;
  KeeperDesk& desk_;
  const std::string folder_;
  const Gauges gauges_;
  const Pace pace_;
  SpaceWatch space_;
  Membership membership_;
  SteadyTime membership_checked_{};

  LogWriter log_;
  Terms said_terms_;
  Standing said_;            // The last that is in the log, behind all notes of its time.
  uint32_t to_confirm_ = 0;  // The state that set its ceiling.
  bool lost_ = false;        // Entries came or went that the log does not tell of.
  bool wrote_ = false;

  std::unique_ptr<Evictor> evictor_;
  bool deposed_ = false;
  std::vector<Note> unsaid_;  // Of the time before it was the evictor.
  std::optional<SteadyTime> tried_to_evict_;
  SteadyTime now_{};
  bool scanning_ = false;
  uint64_t evictions_ = 0;
  uint64_t state_counter_ = 0;
  std::string state_evictor_;
};

}  // namespace penstock::cache
