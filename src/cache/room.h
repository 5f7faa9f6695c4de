// Who may come into a cache, and who must go: the one place where a Policy is put to use, by the
// keeper and by simulations alike.
//
//   evictor, at every tick:  note events to the policy; room.tick(drop); publish room.state()
//   every member:            admission.set(state) when it changed; admission.reserve(name) on a miss
//
// Room is either open to every miss (never used yet, or made by what was overdue), or made at the
// cost of something that is still in use, and then only for those the policy invites.
//
// Threads: one at a time, each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cache/entry.h"
#include "cache/policy.h"

namespace penstock::cache {

struct RoomState {
  uint64_t open_bytes = 0;       // For everyone.
  uint64_t invited_bytes = 0;    // On top, for those invited.
  std::vector<EntryId> invited;  // Sorted; at most Policy::kInvitedMax.
};

class Room {
 public:
  // `policy` outlives it.
  explicit Room(Policy& policy) : policy_(policy) {}

  void set_capacity(uint64_t bytes);  // The policy's as well.

  // Takes what must go, and a little ahead of need: `drop` removes the file and answers whether it
  // is gone; the policy is told. At most kDropsMax, the rest at the next tick. Stops when `drop`
  // fails. Returns how many went.
  static constexpr uint32_t kDropsMax = 1024;
  uint32_t tick(const std::function<bool(const EntryName&)>& drop);

  // As of the last tick.
  const RoomState& state() const { return state_; }

 private:
  class Round;
  uint64_t headroom() const;  // What may be wanted until the next tick.

  Policy& policy_;
  uint64_t capacity_ = 0;
  uint64_t clock_ = 0;        // At the last tick,
  uint64_t read_bytes_ = 0;   // and what was read since the one before.
  uint64_t for_invited_ = 0;  // Of the free bytes.
  RoomState state_;
};

// Gives out the room that a state says there is.
class Admission {
 public:
  // Forgets what was given out and is done; what is still under way is taken off the new state.
  void set(RoomState state);
  // True when it may come in; done() must follow.
  bool reserve(const EntryName& name);
  // It is there (and the next state will count it), or came to nothing.
  void done(const EntryName& name, bool added);
  uint64_t open_bytes() const { return open_; }

 private:
  void take(uint64_t bytes);

  uint64_t open_ = 0;
  uint64_t for_invited_ = 0;
  uint64_t under_way_ = 0;
  std::vector<EntryId> invited_;
};

}  // namespace penstock::cache
