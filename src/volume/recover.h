// Saves what a journal holds when it cannot be replayed any more: because it is of another volume,
// because the database was replaced by an older copy, because of damage in its middle, or because a
// newer version wrote it.
//
//   TO/operations.jsonl          every operation that was found, in order, one JSON object a line
//   TO/files/VOLUME/PATH         what was written to a file, at its offsets, where its name is known
//   TO/inodes/VOLUME/NUMBER      likewise, of files whose names are not known
//
// Such a file is no more than the journal has of it: where nothing was written it is zeros.
// Threads: one call at a time.
#pragma once

#include <string>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::volume {

struct RecoverOptions {
  std::string to;  // Made; kExists when there is something in it.
  // Once all is saved, the journal is put aside under another name, and the volume begins a new one.
  // What the database refers to in it stays with the volume.
  bool discard = false;
};

struct RecoverReport {
  uint64_t operations = 0;
  uint64_t files = 0;               // With content.
  uint64_t bytes = 0;               // Of content.
  std::vector<std::string> damage;  // What could not be read, in words.
  std::string set_aside;            // Where the journal is now, if it was discarded.
};

// Of the host in `directory`, of which nothing is changed unless it is discarded. kBusy: it has an
// owner. kUnsupported: a newer version of Penstock wrote the journal; nothing is discarded then.
Result<RecoverReport> recover_journal(io::FileSystem& fs, const std::string& directory,
                                      const RecoverOptions& options);

// The error of an opening that failed for its journal, with what to do about it.
Error explain_recovery(const Error& error, const std::string& directory);

}  // namespace penstock::volume
