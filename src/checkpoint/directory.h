// A directory of checkpoints: who may write to it, what is in it, what goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/checkpoint.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// As io::make_directories, and each name survives a power cut.
Result<void> make_directories_durably(io::FileSystem& fs, const std::string& path);
// Makes it where it is missing, durably, and takes the lease. kBusy where somebody has it.
Result<std::unique_ptr<io::FileLock>> lease_directory(io::FileSystem& fs,
                                                      const std::string& directory);
// What dead runs left; what belongs to the run `alive`, where one is named, stays. Requires the lease.
Result<void> remove_leftovers(io::FileSystem& fs, const std::string& directory,
                              const std::string& alive = "");

// What the ranks of a run left: messages, and parts of checkpoints that did not become any.
Result<void> remove_run(io::FileSystem& fs, const std::string& directory, const std::string& run);

// Steps that have a directory, oldest first.
Result<std::vector<uint64_t>> list_steps(io::FileSystem& fs, const std::string& directory);
// Those of `steps` (sorted) that a retention lets go; never the last.
std::vector<uint64_t> steps_to_remove(const std::vector<uint64_t>& steps,
                                      const Retention& retention);
// Whether what is at `path` may be replaced or removed: a checkpoint, a file, an empty directory.
// kExists for any other directory: it may hold anything.
Result<void> check_replaceable(io::FileSystem& fs, const std::string& path);
// At once for readers: it is moved away before its files go.
Result<void> remove_checkpoint(io::FileSystem& fs, const std::string& directory,
                               const std::string& name);
// A convenience for people: what is newest is decided by manifests.
Result<void> write_latest(io::FileSystem& fs, const std::string& directory, uint64_t step);

}  // namespace penstock::checkpoint
