// A directory of small files, as data sets of loose images are: made, looked at and read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/io.h"
#include "tune/bench_measure.h"

namespace penstock::tune {

// Threads: each method by one thread at a time; the streams they start use the set concurrently.
class SmallFileSet {
 public:
  // Files of `file_bytes` below `directory`, which is made; one part for each job.
  static Result<std::unique_ptr<SmallFileSet>> create(io::FileSystem& fs, std::string directory,
                                                      uint64_t file_bytes, uint32_t jobs);
  uint64_t file_bytes() const { return file_bytes_; }
  uint32_t jobs() const { return jobs_; }

  // Runs a create, stat or read case. `memory` holds a file for each job. Those that look or read
  // need files that a create case made before.
  Result<CaseResult> run(const BenchCase& bench_case, std::span<std::byte> memory,
                         const BenchContext& context);
  Result<void> remove();

 private:
  SmallFileSet(io::FileSystem& fs, std::string directory, uint64_t file_bytes, uint32_t jobs)
      : fs_(fs),
        directory_(std::move(directory)),
        file_bytes_(file_bytes),
        made_(jobs),
        jobs_(jobs) {}

  std::string path(uint32_t job, uint64_t index) const;
  std::string folder(uint32_t job, uint64_t index) const;
  Result<uint64_t> create_one(uint32_t job, uint64_t index, std::span<std::byte> memory);
  Result<uint64_t> read_one(uint32_t job, uint64_t index, std::span<std::byte> memory);
  Result<void> make_cold(const BenchContext& context);

  io::FileSystem& fs_;
  const std::string directory_;
  const uint64_t file_bytes_;
  std::vector<uint64_t> made_;  // How many files each job has.
  const uint32_t jobs_;
};

}  // namespace penstock::tune
