// What is measured, and on what machine.
#pragma once

#include <string>

#include "penstock/io.h"
#include "tune/bench_result.h"

namespace penstock::tune {

// Of the machine; the target's are left empty.
BenchFacts collect_machine_facts();

struct BenchPath {
  BenchLimits limits;
  std::string real_path;  // Without symbolic links.
};

// Finds out what `path` is and fills in the target's facts. kNotFound when there is nothing,
// kInvalid when it is neither a directory, a file nor a block device.
Result<BenchPath> inspect_bench_path(io::FileSystem& fs, const std::string& path,
                                     BenchFacts& facts);

}  // namespace penstock::tune
