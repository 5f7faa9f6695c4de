// How several processes share the room of a cache without asking each other for each fill, and
// without ever going beyond the limit together.
//
// Each member has a *ceiling*: the bytes that it may have published in its life, fills under way
// included. It counts what it published; the evictor raises the ceiling as there is room. What a
// member could still fill, its lease, is thus the ceiling less what the evictor has heard to be
// published (and counted among the used), and
//
//   used + the sum of the leases <= limit
//
// holds at every moment, however late anyone hears of anything. A ceiling may be lowered too, but
// counts as it was until the member has said (Standing) that it goes by the new one.
//
// This is the evictor's side. Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/log_record.h"
#include "cache/state_file.h"

namespace penstock::cache {

using SteadyTime = std::chrono::steady_clock::time_point;

// a - b, or nothing.
inline uint64_t less(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

// Whether state `a` is `b` or later, by the low halves of their counters.
inline bool reached(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) >= 0;
}

class Leases {
 public:
  // What the evictor before granted it.
  void restore(const std::string& member, const StateRow& row);
  // A member says how it stands. One never heard of before is taken up.
  void heard(const std::string& member, const Standing& standing, SteadyTime now);
  // It missed something, so it would fill if it could.
  void wants(const std::string& member, SteadyTime now);
  void forget(const std::string& member) { leases_.erase(member); }

  struct Round {
    uint64_t room = 0;     // Limit less used, so with what is leased.
    uint64_t grain = 0;    // The size of a large entry: nobody is given less, if there is as much.
    uint32_t counter = 0;  // Of the state that the new ceilings will be in.
    bool own_active = false;  // The evictor itself fills, or would.
    uint64_t own_taken = 0;   // Of the room, what it has filled or reserved meanwhile.
    SteadyTime now{};
    uint64_t turn = 0;  // Counts up now and then: whose turn it is where there is little.
  };
  // Sets new ceilings. Who fills gets more than who does not; the evictor gets what outstanding()
  // leaves of the room.
  void share(const Round& round);
  // What all of them could still fill, and one of them.
  uint64_t outstanding() const;
  uint64_t outstanding(const std::string& member) const;
  // Of these, what is being filled, as last heard.
  uint64_t reserved() const;

  uint64_t ceiling(const std::string& member) const;  // 0 for one not known.
  // Its ceilings, for the state.
  void describe(const std::string& member, StateRow& row) const;

 private:
  struct Lease {
    uint64_t published = 0;
    uint64_t reserved = 0;
    uint64_t ceiling = 0;
    uint64_t ceiling_max = 0;  // The largest since the one that it goes by.
    uint32_t changed = 0;      // The state in which `ceiling` was last set.
    SteadyTime active_at{};    // When it was last heard to fill.

    uint64_t outstanding() const;
    uint64_t granted() const { return ceiling > published ? ceiling - published : 0; }
    void set(uint64_t grant, uint32_t counter);
    bool active(SteadyTime now) const;
  };
  struct Share {
    Lease* lease = nullptr;  // Null: the evictor itself.
    bool active = false;
    uint64_t due = 0;
  };
  std::vector<Share> deal(const Round& round);
  std::vector<Share> in_turn(const Round& round);
  static void lower(const std::vector<Share>& shares, uint32_t counter);
  static void raise(const std::vector<Share>& shares, uint64_t pool, const Round& round);

  std::map<std::string, Lease> leases_;
};

}  // namespace penstock::cache
