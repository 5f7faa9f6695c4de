// The other members of a directory as the evictor sees them: who is alive, on what terms, and what
// their logs say. Logs of the dead are read to their end before they are removed.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cache/directory.h"
#include "cache/leases.h"
#include "cache/member_log.h"
#include "cache/members.h"
#include "cache/pace.h"
#include "cache/state_file.h"

namespace penstock::cache {

// The first error of a tick that is worth telling.
class TickErrors {
 public:
  void note(const Result<void>& result) {
    if (!result.ok()) note(result.error());
  }
  // What must be there is not.
  void note_missing(const Result<void>& result) {
    if (result.ok() || result.error().code != ErrorCode::kNotFound) return note(result);
    note(make_error(ErrorCode::kIo, result.error().detail, true));
  }
  void note(const Error& error) {
    if (first_.ok() && error.code != ErrorCode::kNotFound) first_ = error;
  }
  const Result<void>& first() const { return first_; }

 private:
  Result<void> first_;
};

class Roll {
 public:
  // Who hears what is read.
  struct Listener {
    virtual ~Listener() = default;
    virtual void on_note(const std::string& member, const Note& note) = 0;
    virtual void on_tally(const Tally& tally) = 0;
    virtual void on_found(const std::string& member) = 0;  // Before anything of it is read.
    virtual void on_standing(const std::string& member, const Standing& standing) = 0;
    // `in_order`: it said all that it did. May come twice.
    virtual void on_gone(const std::string& member, bool in_order) = 0;
    virtual void on_gap() = 0;  // Something was not said: only a scan tells what is there.
  };

  // Begins where the evictor before, who wrote `state`, had read to. All outlive it.
  Roll(CacheDirectory& directory, Listener& listener, const State& state, const Pace& pace);

  // Looks who is there, and reads at most `budget` bytes of logs. True: there is more.
  bool update(SteadyTime now, uint64_t budget, TickErrors& errors);
  // Whether all were found that were granted something, and what this process has said before is read.
  bool complete() const { return complete_; }

  // The smallest quota and the largest floor of those alive.
  Terms strictest() const;
  uint32_t living() const;  // Without this process.
  // For each one alive.
  void for_each(const std::function<void(const std::string&, const LogPosition&)>& visit) const;

 private:
  struct Member {
    explicit Member(LogReader log) : reader(std::move(log)) {}
    LogReader reader;
    std::optional<Terms> terms;
    std::optional<SteadyTime> seen_alive;
    bool spoke = false;  // It may have changed files.
    bool left = false;   // And has said all about it.
  };
  using Files = std::map<std::string, MemberFiles>;

  Member& find(const std::string& name);
  void forget_missing(const Files& there);
  // The lock of a member that is dead; nothing when it lives.
  Result<std::unique_ptr<io::FileLock>> lock_if_dead(const std::string& name, Member& member,
                                                     SteadyTime now);
  Result<bool> visit(const std::string& name, const MemberFiles& files, SteadyTime now,
                     uint64_t& budget);
  Result<bool> read(const std::string& name, Member& member, const MemberFiles& files,
                    bool finished, uint64_t& budget);
  // Of a member whose lock is held, or this one's: its logs are read.
  Result<void> remove_logs(const std::string& name, const MemberFiles& files);
  Result<void> remove_traces(const std::string& name);
  Result<void> sweep_strangers(const Files& there);
  void forget(const std::string& name);
  void apply(const std::string& name, Member& member, const LogRecord& record);

  CacheDirectory& directory_;
  Listener& listener_;
  const State state_;
  const Pace pace_;
  const std::string folder_;
  std::map<std::string, Member> members_;
  bool complete_ = false;
  bool sweep_ = true;  // Once: for what is left of members that nobody knows of.
};

}  // namespace penstock::cache
