// The directory that a bench works in, and that nobody finds afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/io.h"

namespace penstock::tune {

// A directory ".penstock-bench-…" of a name of its own, removed with all that is in it when
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

// Removes what runs that were killed left in `directory`, and returns the paths. Those of running
// processes stay.
Result<std::vector<std::string>> remove_bench_leftovers(io::FileSystem& fs,
                                                        const std::string& directory);

}  // namespace penstock::tune
