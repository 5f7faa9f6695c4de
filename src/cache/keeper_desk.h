// What the callers of a keeper and its thread share, under one mutex that is never held while
// anything else is waited for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "cache/allowance.h"
#include "cache/evictor.h"
#include "cache/keeper.h"
#include "cache/note_buffer.h"

namespace penstock::cache {

class KeeperDesk {
 public:
  explicit KeeperDesk(SizeOrPercent quota) : quota_(quota) {}

  // The callers' side: see keeper.h.
  bool reserve(const EntryName& name);
  void cancel_fill(const EntryName& name);
  void note_added(const EntryName& name);
  void note(const Note& note);
  void count_read(uint64_t hit_bytes, uint64_t miss_bytes);
  void count_anew();
  uint64_t room_bytes() const;
  void set_quota(SizeOrPercent quota);
  KeeperStatus status() const;
  Result<void> settle(Deadline deadline);
  void stop();

  // The thread's side.
  // Waits until `until`, or until somebody wants something; then not before `earliest`, unless
  // somebody waits for it. False: to stop.
  bool wait(SteadyTime earliest, SteadyTime until);
  bool stopping() const;
  bool wanted() const;
  // What settle() calls it answers to when it ends well; to be asked before drain().
  uint64_t begin_tick();
  void end_tick(uint64_t ticket, const Result<void>& result);
  // All but its terms.
  OwnNews drain();
  bool has_notes() const;
  Standing standing() const;
  SizeOrPercent quota() const;
  void adopt(Grant grant);
  // Adopts what `decide` answers to how it stands. Nothing is reserved in between.
  void regrant(const std::function<Grant(const Standing&)>& decide);
  void set_status(const KeeperStatus& status);

 private:
  void want_tick(std::unique_lock<std::mutex>& held);

  // Every read counts: without the mutex.
  std::atomic<uint64_t> hit_bytes_ = 0;
  std::atomic<uint64_t> miss_bytes_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All under the mutex.
  Allowance allowance_;
  NoteBuffer notes_;
  bool anew_ = false;
  SizeOrPercent quota_;
  KeeperStatus status_;
  uint64_t drained_published_ = 0;
  bool wanted_ = false;  // A tick, before its time.
  bool stop_ = false;
  uint64_t settle_asked_ = 0;
  uint64_t settle_done_ = 0;
  Result<void> settle_result_;
};

}  // namespace penstock::cache
