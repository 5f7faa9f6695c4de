// A member's log: an append-only run of records, in files of about 1 MiB (MEMBER.log, MEMBER.1.log,
// MEMBER.2.log …). One member writes it, the evictor reads on where it was, and removes files that
// it has read to their end.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/log_record.h"
#include "cache/state_file.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

inline constexpr uint64_t kLogFileBytes = 1 << 20;        // Then the next is begun.
inline constexpr uint32_t kLogFilesMax = 8;               // Kept while nobody reads them.
inline constexpr uint64_t kLogPendingBytesMax = 1 << 20;  // In memory; twice that for added and
                                                          // dropped entries.

// MEMBER.log or MEMBER.K.log in `folder`.
std::string log_path(const std::string& folder, const std::string& member, uint32_t file);

class LogWriter {
 public:
  LogWriter(io::FileSystem& fs, std::string folder, std::string member)
      : fs_(fs), folder_(std::move(folder)), member_(std::move(member)) {}

  // Opens a file where none is open, or the open one is large. To be called before the records of a
  // tick: tells whether `front`, which every file begins with, was put there now.
  Result<bool> prepare(const Terms& terms, const Standing& standing);
  // Adds to what the next flush() writes. False: there is no room for it, because nobody reads the
  // log or it cannot be written.
  bool add(const LogRecord& record);
  // What fails is written again by the next one, at the same place.
  Result<void> flush();
  // Removes all of its files; the next prepare() begins a new one.
  Result<void> remove_all();
  // Closes the file, and gives the notes that are not (or only half) in it; the next prepare()
  // begins a new one.
  std::vector<Note> take_pending();

  bool pending() const { return !pending_.empty(); }

 private:
  Result<bool> crowded();
  Result<void> open_next();

  io::FileSystem& fs_;
  const std::string folder_;
  const std::string member_;
  std::unique_ptr<io::File> file_;
  uint32_t oldest_ = 0;  // The first file that may still be there.
  uint32_t next_ = 0;    // The number of the next file.
  uint64_t offset_ = 0;
  std::string pending_;   // Whole records, not (or only half) on the drive yet.
  bool crowded_ = false;  // Nobody reads: only what changes files is still taken.
};

class LogReader {
 public:
  // Bytes that are no record may be half written: they are waited for, but not longer than
  // `patience`.
  LogReader(io::FileSystem& fs, std::string folder, std::string member, Nanoseconds patience)
      : fs_(fs), folder_(std::move(folder)), member_(std::move(member)), patience_(patience) {}

  void start_at(const LogPosition& position) { at_ = position; }
  const LogPosition& position() const { return at_; }

  struct Progress {
    bool more = false;     // `budget` ended it.
    bool damaged = false;  // Something was passed over.
  };
  // Reads on through `files` (the numbers of those that were there, in order), at most `budget`
  // bytes, and removes those it is through with but the last. `finished`: the writer is no more, so
  // that what is no record never will be.
  Result<Progress> read(const std::vector<uint32_t>& files, uint64_t budget, bool finished,
                        const std::function<void(const LogRecord&)>& visit);

 private:
  // True: everything in the file was read.
  Result<bool> read_file(uint64_t& budget, bool finished, Progress& progress,
                         const std::function<void(const LogRecord&)>& visit);
  // How many of `bytes` were dealt with.
  size_t parse(std::span<const std::byte> bytes, bool finished, Progress& progress,
               const std::function<void(const LogRecord&)>& visit);
  bool waited_enough();

  io::FileSystem& fs_;
  const std::string folder_;
  const std::string member_;
  const Nanoseconds patience_;
  LogPosition at_;
  // Where bytes that are no record were met first, and when.
  LogPosition stuck_at_{UINT32_MAX, 0};
  std::chrono::steady_clock::time_point stuck_since_{};
};

}  // namespace penstock::cache
