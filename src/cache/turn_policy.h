// The Policy, as the code of its snapshots sees it. See policy.h for what it does.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cache/entry_table.h"
#include "cache/ghosts.h"
#include "cache/invitations.h"
#include "cache/policy.h"
#include "cache/turn.h"

namespace penstock::cache {

class TurnPolicy final : public Policy {
 public:
  void set_capacity(uint64_t bytes) override { capacity_ = bytes; }
  void added(const EntryName& name) override;
  void removed(const EntryId& id) override;
  void used(const EntryId& id, uint64_t bytes) override;
  void missed(const EntryId& id, uint64_t bytes, uint32_t blocks) override;
  void expected(const EntryId& id) override;
  void finished(const EntryId& id, bool again) override;
  std::optional<EntryName> victim(Need need) override;
  std::vector<EntryId> invited() override { return invitations_.list(clock_); }
  uint64_t used_bytes() const override { return used_blocks_ * kBlockBytes; }
  uint64_t entries() const override { return table_.size(); }
  uint64_t clock_bytes() const override { return clock_; }
  bool contains(const EntryId& id) const override { return table_.find(id) != nullptr; }
  uint64_t memory_bytes() const override;
  Result<void> save(const IndexSink& sink) const override;
  Result<void> restore(uint64_t bytes, const IndexSource& source) override;
  void begin_scan() override;
  void seen(const EntryName& name) override { added(name); }
  void end_scan() override;

 private:
  // The worst of a few entries picked at random.
  struct Pick {
    const Entry* overdue = nullptr;  // The most overdue, if any is.
    const Entry* dullest = nullptr;  // The one with the longest turn that nobody expects,
    double turn = 0;                 // and that turn.
    const Entry* any = nullptr;
  };
  Pick pick(int samples);
  const Entry& random_entry();
  const Entry* front_finished();
  const Entry* newest_again();
  const Entry* for_invited(const Pick& pick);

  uint64_t age(const Entry& entry) const { return clock_ - entry.last; }
  double horizon(const Entry& entry) const;
  double expected_turn(const Entry& entry) const;
  void note_late(int late, int known);
  void maybe_invite(const EntryId& id, const Turn& turn);
  void forget(Entry& entry);

  EntryTable table_;
  Ghosts ghosts_;
  Invitations invitations_{kInvitedMax};
  Intervals intervals_;
  std::deque<EntryId> finished_;  // Hints: an entry's flags are the truth.
  std::deque<EntryId> again_;
  uint64_t capacity_ = 0;
  uint64_t clock_ = 0;
  uint64_t used_blocks_ = 0;
  // Of the entries picked lately whose turn is known: how many were late.
  double late_ = 0;
  double known_ = 0;
  bool many_are_late_ = false;
  uint64_t random_ = 0x9E3779B97F4A7C15U;
};

}  // namespace penstock::cache
