// What this process may still fill: the member's side of leases.h. Only arithmetic, for it is asked
// on every miss.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/entry.h"
#include "cache/log_record.h"

namespace penstock::cache {

// What the evictor, in this process or another, has granted.
struct Grant {
  uint64_t ceiling = 0;  // See leases.h.
  uint32_t counter = 0;  // Of the state that says so.
  // How the room of all divides into what is open to everyone, and what only to the invited.
  uint64_t open_bytes = 0;
  uint64_t invited_bytes = 0;
  std::vector<EntryId> invited;  // Sorted.
};

class Allowance {
 public:
  void adopt(Grant grant);

  // True when it may come in; added() or cancelled() must follow.
  bool reserve(const EntryName& name);
  void added(const EntryName& name);
  void cancelled(const EntryName& name);

  Standing standing() const;
  uint64_t published_bytes() const { return published_; }
  uint64_t reserved_bytes() const { return reserved_; }
  // For who is not invited.
  uint64_t open_bytes() const { return left_below(open_ceiling_); }
  // So much of the last grant is gone that the next is wanted before its time.
  bool runs_out() const { return left_below(grant_.ceiling) < granted_ / 2; }

 private:
  uint64_t left_below(uint64_t ceiling) const {
    const uint64_t taken = published_ + reserved_;
    return ceiling > taken ? ceiling - taken : 0;
  }

  Grant grant_;
  uint64_t granted_ = 0;       // What was left when it was adopted.
  uint64_t open_ceiling_ = 0;  // At most the ceiling: the rest is for the invited.
  uint64_t published_ = 0;     // Ever.
  uint64_t reserved_ = 0;
};

}  // namespace penstock::cache
