// The directory that a bench works in, and that nobody finds afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/io.h"

namespace penstock::tune {

// A directory ".penstock-bench-HOST-PID-RANDOM" of its own, removed with all that is in it when
// destroyed. A lock beside it, which the kernel drops with the process, tells whether its owner
// lives: it is taken before the directory is made and removed after it.
class BenchScratch {
 public:
  static Result<std::unique_ptr<BenchScratch>> create(io::FileSystem& fs,
                                                      const std::string& directory);
  ~BenchScratch();
  BenchScratch(const BenchScratch&) = delete;
  BenchScratch& operator=(const BenchScratch&) = delete;

  const std::string& path() const { return path_; }
  // Removes it now and tells whether that worked. The destructor only logs.
  Result<void> remove();

 private:
  BenchScratch(io::FileSystem& fs, std::string path, std::unique_ptr<io::FileLock> lock)
      : fs_(fs), path_(std::move(path)), lock_(std::move(lock)) {}

  io::FileSystem& fs_;
  std::string path_;
  std::unique_ptr<io::FileLock> lock_;
  bool removed_ = false;
};

// The HOST above: this machine's name, of letters, digits, '.', '_' and '-'.
std::string bench_host_name();

// Removes what runs of this host that were killed left in `directory`, and returns the paths; their
// room is free again on return. Those of running processes stay.
Result<std::vector<std::string>> remove_bench_leftovers(io::FileSystem& fs,
                                                        const std::string& directory);

// What runs of other hosts have in `directory`. Locks of another host may not be seen here (NFS and
// Lustre can be mounted so), so that nobody knows whether those runs still go on: they are only
// named.
Result<std::vector<std::string>> find_foreign_scratch(io::FileSystem& fs,
                                                      const std::string& directory);

}  // namespace penstock::tune
