#pragma once

#include <memory>
#include <string>

#include "penstock/result.h"
#include "penstock/store.h"

namespace penstock::pack {

// Samples into shards of about one size: PREFIX-000000.tar and so on. A sample is never cut.
// Threads: one at a time.
class ShardWriter {
 public:
  // `store` outlives it.
  ShardWriter(store::ObjectStore& store, std::string prefix, uint64_t shard_bytes)
      : store_(store), prefix_(std::move(prefix)), shard_bytes_(shard_bytes) {}

  // Members of one sample belong together: begin_sample() with the sum of their tar_member_bytes().
  Result<void> begin_sample(uint64_t bytes);
  Result<void> add(const std::string& name, std::span<const std::byte> data);
  Result<void> finish();  // The last shard. Without it, that one is taken back.

  uint64_t shards() const { return shards_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> end_shard();

  store::ObjectStore& store_;
  const std::string prefix_;
  const uint64_t shard_bytes_;
  std::unique_ptr<store::Upload> upload_;
  uint64_t in_shard_ = 0;
  uint64_t shards_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::pack
