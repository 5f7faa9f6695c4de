// Striping of new directories on Lustre, by its own tool.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::sync {

// Runs a program, whose path comes first, with these words, without a shell, and waits for it. Its
// exit status (128 and the signal's number when one ended it), or why it could not be run.
using Runner = std::function<Result<int>(const std::vector<std::string>& words)>;
Result<int> run_program(const std::vector<std::string>& words);

// The first executable file of that name in a list of directories such as $PATH; empty when there
// is none.
std::string find_program(std::string_view name, std::string_view path_list);

class Striper {
 public:
  // Refuses before any work: kUnsupported when the target's file system is not Lustre or `lfs` (its
  // path) is empty, kInvalid for a count that is no count. 1 to 2000 stripes, or -1: over all there
  // are.
  static Result<Striper> create(int64_t stripes, std::string_view target,
                                std::string_view file_system_type, std::string lfs,
                                Runner runner = run_program);

  // New files in this directory, and in those made in it later, are striped.
  Result<void> apply(const std::string& directory) const;

 private:
  Striper(int64_t stripes, std::string lfs, Runner runner)
      : stripes_(stripes), lfs_(std::move(lfs)), runner_(std::move(runner)) {}

  int64_t stripes_;
  std::string lfs_;
  Runner runner_;
};

}  // namespace penstock::sync
