// Brings the files of a staged save to the disk: written, durable, not named yet.
#pragma once

#include <optional>
#include <string>

#include "base/rate_limiter.h"
#include "checkpoint/job.h"
#include "penstock/io.h"

namespace penstock::checkpoint {

// Threads: one at a time.
class Writer {
 public:
  Writer(io::FileSystem& fs, const CheckpointerOptions& options);

  // Until its files are durable; then job.manifest lists them. Where a device lost what it was given, all
  // is written anew, once, if the pieces are still there.
  // `before`: the manifest of the checkpoint at `before_path`; files that are as there become links.
  Result<void> write(Job& job, const Manifest* before, const std::string& before_path);

 private:
  Result<void> write_files(Job& job, const Manifest* before, const std::string& before_path);

  io::FileSystem& fs_;
  const std::string directory_;
  const io::CacheMode mode_;
  const bool sha256_;
  RateLimiter limiter_;
};

}  // namespace penstock::checkpoint
