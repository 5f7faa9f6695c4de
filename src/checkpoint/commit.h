// The last step of a save: what lies complete under a temporary name becomes a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "penstock/checkpoint.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

struct Commit {
  std::string directory;
  std::string nonce;  // Of the attempt.
  std::string name;
  bool replace = false;
};
inline Commit commit_of(const std::string& directory, const SaveOptions& options,
                        const std::string& nonce) {
  return {directory, nonce, options.name, options.replace};
}

// Requires that all files of the manifest are durable in the attempt's directory. Writes sums and
// manifest, gives the whole its name, durably. kExists where that is taken and nothing is to be replaced.
// On failure nothing of the attempt stays, if that can be helped.
Result<void> commit_attempt(io::FileSystem& fs, const Commit& commit, const Manifest& manifest);

// One manifest of the parts that ranks wrote, in the order of ranks. kCorrupt where one is of another
// attempt.
Result<Manifest> merge_parts(const std::vector<std::string>& parts, const std::string& nonce);

// Whether the checkpoint of that name is what this attempt became.
Result<bool> was_committed(io::FileSystem& fs, const Commit& commit);

}  // namespace penstock::checkpoint
