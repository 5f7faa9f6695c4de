// Who is invited into a full cache, and at whose cost. Bounded; those who came first stay until
// they come in or their time is over, as they come in when they are missed the next time.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cache/entry.h"
#include "cache/entry_table.h"

namespace penstock::cache {

class Invitations {
 public:
  explicit Invitations(size_t most) : most_(most) {}

  // Missed again and again, every `turn` bytes. Nothing when there are too many.
  void invite(const EntryId& id, double turn, uint64_t now);
  // A reader said that it is about to come, until the clock shows `until`.
  void expect(const EntryId& id, uint64_t until);
  void erase(const EntryId& id) { invited_.erase(id); }
  bool is_expected(const EntryId& id) const;

  // Sorted, without those whose time is over.
  std::vector<EntryId> list(uint64_t now);
  // As of the last list().
  bool any_expected() const { return any_expected_; }
  double typical_turn() const { return typical_turn_; }  // 0: none but expected ones.

 private:
  struct Invitation {
    float turn = 0;  // 0: expected.
    uint64_t until = 0;
  };
  struct Hash {
    size_t operator()(const EntryId& id) const { return mix(id); }
  };

  size_t most_;
  std::unordered_map<EntryId, Invitation, Hash> invited_;
  bool any_expected_ = false;
  double typical_turn_ = 0;
};

}  // namespace penstock::cache
