// Which checkpoints a path means: a run, one checkpoint of it, here or in a store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/source.h"
#include "cli/checkpoint_command.h"
#include "penstock/checkpoint.h"

namespace penstock::cli {

struct CheckpointTarget {
  std::optional<uint64_t> step;  // Unknown of one that is not named after its step.
  std::string path;
  std::function<std::unique_ptr<checkpoint::Source>()> source;
};

// Newest first. kNotFound where there is none, or none of the step asked for.
Result<std::vector<CheckpointTarget>> find_checkpoints(io::FileSystem& fs, const std::string& path,
                                                       std::optional<uint64_t> step);
// As list_checkpoints() describes them.
checkpoint::Found describe_target(const CheckpointTarget& target);
// Whether it is in a store: s3://, pen://.
bool is_in_store(const std::string& path);
// The run's directory or address, where `path` is that or one checkpoint in it, which then is the step.
Result<std::string> find_run(io::FileSystem& fs, const std::string& path,
                             std::optional<uint64_t>& step);

}  // namespace penstock::cli
