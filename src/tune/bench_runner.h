// Runs a plan.
#pragma once

#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/io.h"
#include "penstock/store.h"
#include "tune/bench_measure.h"

namespace penstock::tune {

struct FileBenchTarget {
  io::FileSystem& fs;
  std::string path;
  BenchTarget kind = BenchTarget::kDirectory;
  io::MemoryRegistrar* registrar = nullptr;  // May be null.
};

// Runs the cases one after the other and appends to `results`, so that what was measured before an
// error or a stop is not lost. A case that this system cannot do (kUnsupported) is noted as
// skipped; any other error ends the run. In a directory everything happens below a BenchScratch,
// gone on return. An existing file or device is opened for reading only. kCancelled when the
// context's token stopped it.
Result<void> run_file_bench(const FileBenchTarget& target, const BenchPlan& plan,
                            const BenchContext& context, std::vector<CaseResult>& results);

// The same on an object store, below a prefix of its own that is removed afterwards.
Result<void> run_store_bench(store::ObjectStore& store, const BenchPlan& plan,
                             const BenchContext& context, std::vector<CaseResult>& results);

// Prefixes in the store that look like those of earlier runs. Whether their runs still go on cannot
// be known, so they are only named.
Result<std::vector<std::string>> find_store_leftovers(store::ObjectStore& store);

}  // namespace penstock::tune
