// One async_get under way: its pieces, its answer, and the caller's memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/gate.h"
#include "cache/entry.h"
#include "cache/streams.h"
#include "cache/versions.h"
#include "penstock/store.h"

namespace penstock::cache {

// The part of a read that lies in one window.
struct Piece {
  uint64_t window = 0;  // Which one of the object.
  uint32_t begin = 0;   // In the window.
  std::span<std::byte> into;
};

// Threads: all calls from any thread. Held by everyone who works for it; the last one to let go
// opens the store's gate.
class GetCall : public std::enable_shared_from_this<GetCall> {
 public:
  GetCall(std::string key, uint64_t offset, std::span<std::byte> into, store::GetOptions options,
          store::Done<store::GetResult> done, Gate::Pass pass);

  const std::string& key() const { return key_; }
  uint64_t offset() const { return offset_; }
  std::span<std::byte> into() const { return into_; }
  const store::GetOptions& options() const { return options_; }
  bool watched() const {
    return options_.deadline != kNoDeadline || options_.cancel.stop_possible();
  }

  // Begins (again) with this version: nothing of it was read yet. The caller of begin() counts as
  // a piece under way, until its own piece_done().
  void begin(VersionRef version, uint64_t window_bytes, Streams::Pattern pattern);
  const VersionRef& version() const { return version_; }
  const Streams::Pattern& pattern() const { return pattern_; }

  // The next piece to start, when fewer than `limit` are under way.
  std::optional<Piece> next_piece(uint32_t limit);
  // Copies to the caller's memory, by way of `hashes` if given; false when the call was answered
  // already.
  bool copy(std::span<std::byte> to, std::span<const std::byte> from,
            BlockHashes* hashes = nullptr);
  // The caller's memory is lent to somebody who writes to it, until give_back(). False when the
  // call was answered already.
  bool lend();
  void give_back();
  // True when this was the last: call finish() or begin() again.
  bool piece_done(const Result<void>& outcome);

  // What the pieces came to.
  Result<store::GetResult> outcome() const;
  // True when it may begin again with the version that there is now.
  bool may_restart();

  // Answers, once, as soon as nobody uses the caller's memory. Not from inside the caller's call.
  void finish(Result<store::GetResult> result);
  // True when nothing more is to be watched.
  bool expire_if_due();

  // Only one thread at a time starts pieces; another that comes meanwhile leaves it to that one.
  bool enter_pump();
  bool leave_pump();  // False: somebody came meanwhile; go round again.

 private:
  void answer(std::unique_lock<std::mutex>& lock);

  const std::string key_;
  const uint64_t offset_;
  const std::span<std::byte> into_;
  const store::GetOptions options_;
  store::Done<store::GetResult> done_;
  const Gate::Pass pass_;

  VersionRef version_;
  Streams::Pattern pattern_;
  uint64_t window_bytes_ = 0;

  mutable std::mutex mutex_;
  uint64_t position_ = 0;  // Of the next piece, in the object.
  uint64_t end_ = 0;
  uint32_t under_way_ = 0;
  uint32_t users_of_memory_ = 0;  // Copying, or lent.
  std::optional<Error> error_;
  int attempts_ = 0;
  bool pumping_ = false;
  bool pump_again_ = false;
  bool answered_ = false;
  std::optional<Result<store::GetResult>> late_answer_;  // Waits for users_of_memory_.
};

}  // namespace penstock::cache
