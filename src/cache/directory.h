// The files of one cache directory: names, publishing, dropping. Every call blocks.
//
//   DIR/penstock-cache        what this is: format version, feature bits (text, written durably)
//   DIR/entries/XX/NAME       XX: the first byte of the id
//   DIR/tmp/MEMBER-N          fills not yet published
//   DIR/members/MEMBER.log    what each process that uses the directory did (see members.h);
//                             further ones are MEMBER.N.log
//   DIR/members/MEMBER.lock   locked while it lives
//   DIR/evictor.lock          locked by the process that evicts
//   DIR/state                 what the evictor tells the others
//   DIR/index                 what the evictor has learnt, for the next one
//
// Threads: all calls from any thread. Nothing here is ever synced but the first: what a power cut
// tears fails verification.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cache/entry.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

class CacheDirectory {
 public:
  // Makes it when missing or empty. kInvalid when it holds something else; kUnsupported when a
  // newer version made it; kCorrupt when the file that says so is damaged, or a link or the like
  // stands where a cache has a file or directory; what the file system says otherwise. `fs` outlives
  // it.
  // `must_exist`: kNotFound instead of making it, and nothing is written: for tools that only look,
  // and for coming back to a drive, whose mount point may be empty because it is gone.
  static Result<std::unique_ptr<CacheDirectory>> open(io::FileSystem& fs, std::string path,
                                                      io::CacheMode mode, bool must_exist = false);
  virtual ~CacheDirectory() = default;

  virtual io::FileSystem& file_system() const = 0;
  virtual const std::string& path() const = 0;    // Of the directory.
  virtual const std::string& member() const = 0;  // This process and opening: unique, "PID-RANDOM".
  virtual std::string path_of(const EntryName& name) const = 0;

  // For reading. kNotFound when it is not there (any more), also when a link or anything else that is
  // no plain file stands in its place: none is followed or waited for.
  virtual Result<std::unique_ptr<io::File>> open_entry(const EntryName& name) = 0;
  // Writes `file` (sealed, of name.file_bytes()) under a temporary name and renames it. Replaces
  // what is there; kInvalid when that is a directory, or where a link was planted on the way. kBusy: somebody took our temporary file for
  // that of a dead process, which happens only to members without a lock. On failure nothing is
  // left, unless removing fails too.
  virtual Result<void> publish(const EntryName& name, io::MemorySlice file) = 0;
  // Removes it and gives its space back at once, even where others have it open: they will read it
  // short. A file that has a second name, a link and the like are only unlinked. Not there: fine.
  // kInvalid where a link was planted on the way: it is not ours. The answer is whether it is gone.
  virtual Result<void> drop(const EntryName& name) = 0;

  // Every file under entries/ with a proper name, in no order, until `visit` returns false (which may
  // drop what it hears of); `foreign`, when given, hears of the paths of others, which are never
  // touched.
  virtual Result<void> scan(const std::function<bool(const EntryName&)>& visit,
                            const std::function<void(const std::string&)>& foreign = {}) = 0;
  // Removes temporary files, logs and locks of members that are no more: those whose lock can be had,
  // or who have none. So a member takes its lock before it makes any other file. What has not the
  // name of a member's file is left alone. Goes on after a failure and returns the first.
  virtual Result<void> sweep() = 0;
  // Writes, reads back and removes a small file: is the drive well?
  virtual Result<void> probe() = 0;
  virtual Result<io::SpaceInfo> space() = 0;
};

}  // namespace penstock::cache
