// A second place for checkpoints: another directory, S3, or a volume. The same layout as the first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/rate_limiter.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/source.h"
#include "penstock/store.h"

namespace penstock::checkpoint {

struct CopyOptions {
  RateLimiter& limiter;
  // Files that the newest one there has too are copied within the store.
  bool incremental = false;
  std::stop_token stop = {};
  std::function<void(uint64_t bytes)> moved = [](uint64_t) {};  // Called as bytes pass.
};

// A checkpoint is there when its manifest is, which comes last and goes first.
// Threads: one at a time, but source().
class Replica {
 public:
  explicit Replica(std::shared_ptr<store::ObjectStore> store) : store_(std::move(store)) {}
  // One that is a directory: folders that become empty are removed, which stores do not know of.
  Replica(std::shared_ptr<store::ObjectStore> store, io::FileSystem& fs, std::string directory)
      : store_(std::move(store)), fs_(&fs), directory_(std::move(directory)) {}
  // "s3://bucket/run1", "pen://volume/run1", or a directory, which is made when missing.
  static Result<std::unique_ptr<Replica>> open(const std::string& address, io::FileSystem& fs);

  // Steps that are there, oldest first.
  Result<std::vector<uint64_t>> steps();
  std::unique_ptr<Source> source(uint64_t step) const;

  // Copies all of it, then the manifest, and makes it durable. What an earlier try left is used where it
  // is whole. Every byte is checked against the manifest on its way: kCorrupt, and nothing is there,
  Result<void> copy(Source& from, uint64_t step, const CopyOptions& options);
  // What a retention lets go of `newest` and those before it, and what killed copies of steps that are no
  // more left.
  Result<void> retire(const Retention& retention, uint64_t newest);
  Result<void> remove(uint64_t step);

  std::string description() const { return store_->description(); }

 private:
  Result<bool> has_file(const std::string& folder, const ManifestFile& file);
  Result<void> copy_file(Source& from, const std::string& folder, const ManifestFile& file,
                         const CopyOptions& options);
  Result<bool> copy_within(const Manifest& before, const std::string& folder,
                           const ManifestFile& file);
  Result<std::optional<Manifest>> newest();
  Result<std::vector<uint64_t>> folders();

  const std::shared_ptr<store::ObjectStore> store_;
  io::FileSystem* const fs_ = nullptr;
  const std::string directory_;
};

}  // namespace penstock::checkpoint
