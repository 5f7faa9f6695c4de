// What everything over one database shares: its connection, the transaction that is always open,
// counters, volumes, and the turn that calls take.
//
// Invariants:
// - Between calls a transaction is open, with all changes since the last commit in it, unless the
//   database is broken.
// - A call happens whole, or not at all, in the tables as in the numbers kept here: it refuses before
//   it changes anything, or has a savepoint to go back to. (Savepoints are not for all: each keeps a
//   copy of every page that is changed after it.)
// - SQLite gives up the whole transaction when the file system fails it. What was not committed is
//   gone then, and so the database is broken from there on: every call answers kIo.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "meta/errors.h"
#include "meta/schema.h"
#include "meta/sql.h"
#include "penstock/meta.h"

namespace penstock::meta {

using VolumeId = int64_t;

// Guarded by the core's turn.
struct Volume {
  VolumeId id = 0;
  Settings settings;
  Version horizon = 0;  // Older versions are not kept.
  Totals totals;        // Now,
  Totals committed;     // and at the last commit.
  bool removed = false;
};

// Outlives the core, since pins may.
struct Pins {
  std::mutex mutex;
  std::multiset<Version> versions;
};

class Core {
 public:
  // Nothing is open yet: connect() opens the database, and its first transaction.
  Core(io::FileSystem& fs, const std::string& path) : vfs_(fs, path) {}
  ~Core();
  Result<void> connect(const SqliteOptions& options);
  // Nothing is written any more, when destroyed either.
  void abandon() { broken_ = make_error(ErrorCode::kClosed, "it was not opened"); }

  // One call that only reads.
  template <typename Body>
  auto read(Body body) -> decltype(body()) {
    std::lock_guard turn(mutex_);
    if (broken_) return broken_error();
    auto answer = body();
    if (!answer.ok()) look_whether_broken(answer.error());
    return answer;
  }
  // One call that changes something. What it refuses it refuses before its first change: a failure
  // behind that breaks the database, since there is no way back.
  template <typename Body>
  auto change(Body body) -> decltype(body()) {
    std::lock_guard turn(mutex_);
    if (broken_) return broken_error();
    begin_change();
    auto answer = body();
    if (answer.ok()) {
      end_change();
    } else {
      refuse_change(answer.error());
    }
    return answer;
  }
  // One that may fail in its middle, and is undone then.
  template <typename Body>
  auto change_much(Body body) -> decltype(body()) {
    std::lock_guard turn(mutex_);
    if (broken_) return broken_error();
    begin_change();
    PENSTOCK_TRY(save());
    auto answer = body();
    if (answer.ok()) {
      PENSTOCK_TRY(release());
      end_change();
    } else {
      undo_change(answer.error());
    }
    return answer;
  }
  Result<Version> commit(const Commit& commit);

  // The rest is for those whose turn it is.
  Connection& db() { return *db_; }
  Version last() const { return last_; }
  Version current() const { return last_ + 1; }  // What is not committed yet belongs to it.
  // To be said by whatever changed a row: what versions show, or only what is around them.
  void note_change() { pending_.versioned = true; }
  void note_upkeep() { pending_.upkeep = true; }
  // Both hold once the call succeeds.
  void note_totals(Volume& volume, int64_t bytes, int64_t inodes);

  // A call that fails takes none of these: the same calls give the same numbers again.
  Ino next_ino() { return next_.ino++; }
  // The one that is asked for; kInvalid where it was, or may have been, given before.
  Result<Ino> take_ino(Ino wanted);
  uint64_t next_cookie() { return next_.cookie++; }
  ChunkId next_chunk() { return next_.chunk++; }
  uint64_t next_data_version() { return (uint64_t{session_} << 40) + ++data_changes_; }

  std::map<VolumeId, std::shared_ptr<Volume>>& volumes() { return volumes_; }
  // kNotFound where there is none of that name.
  Result<std::shared_ptr<Volume>> volume(std::string_view name);
  uint32_t session() const { return session_; }
  std::shared_ptr<Pins> pins() const { return pins_; }
  // The oldest version that any volume keeps.
  Version horizon() const;
  // ENOSPC where so much more would exceed the quota.
  Result<void> check_quota(const Volume& volume, uint64_t bytes, uint64_t inodes) const;

  JournalPosition journal();
  Version last_version();
  std::mutex& mutex() { return mutex_; }
  // The next of each to be given.
  struct Counters {
    Ino ino = 0;
    uint64_t cookie = 0;
    ChunkId chunk = 0;
  };
  Counters counters() const { return next_; }
  // Where they are lower; whether any was.
  bool raise_counters(const Counters& least);

 private:
  struct Pending {
    bool versioned = false;
    bool upkeep = false;
    Volume* volume = nullptr;
    int64_t bytes = 0;
    int64_t inodes = 0;
    // Before it:
    Counters next = {};
    int64_t rows = 0;  // That were ever changed.
  };

  Error broken_error() const;
  void break_with(const Error& error);
  void look_whether_broken(const Error& error);
  void begin_change();
  void end_change();
  void refuse_change(const Error& error);
  Result<void> save();
  Result<void> release();
  void undo_change(const Error& error);

  Result<void> make(const SqliteOptions& options);
  Result<void> load();
  Result<void> load_volumes();
  Result<void> start_session();
  Result<void> write_version(Time now, JournalPosition journal);
  Result<void> write_counters(Version version, Time time, JournalPosition journal);
  Result<void> go_on();

  std::mutex mutex_;
  SqliteVfs vfs_;
  std::unique_ptr<Connection> db_;
  std::optional<Error> broken_;
  Pending pending_;         // Of the call whose turn it is.
  bool versioned_ = false;  // Since the last commit.
  bool upkeep_ = false;

  Version last_ = 0;
  Time last_time_ = 0;
  JournalPosition journal_;
  Counters next_;
  uint32_t session_ = 0;
  uint64_t data_changes_ = 0;
  std::map<VolumeId, std::shared_ptr<Volume>> volumes_;
  const std::shared_ptr<Pins> pins_ = std::make_shared<Pins>();
};

}  // namespace penstock::meta
