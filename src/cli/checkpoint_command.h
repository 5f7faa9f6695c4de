// The verbs of `penstock checkpoint`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cli {

struct CheckpointArguments {
  std::string path;
  std::string to;                 // Of copy.
  std::vector<std::string> also;  // Of list.
  std::optional<uint64_t> step;
  std::optional<uint64_t> diff;
  uint64_t keep_last = 0;
  uint64_t keep_every = 0;
  std::string max_bandwidth;
  bool all = false;
  bool dry_run = false;
  bool json = false;
};

// Each returns the exit code.
int checkpoint_list(io::FileSystem& fs, CheckpointArguments& arguments);
int checkpoint_show(io::FileSystem& fs, CheckpointArguments& arguments);
int checkpoint_verify(io::FileSystem& fs, CheckpointArguments& arguments);
int checkpoint_prune(io::FileSystem& fs, CheckpointArguments& arguments);
int checkpoint_copy(io::FileSystem& fs, CheckpointArguments& arguments);

// Says what is wrong; the exit code for it.
int checkpoint_failed(std::string_view verb, const Error& error);
int checkpoint_print(std::string_view verb, const std::string& text, int exit_code);
std::string checkpoint_json(const nlohmann::json& json);

}  // namespace penstock::cli
