#pragma once

#include <memory>
#include <vector>

#include "data/filled_parts.h"
#include "data/find.h"
#include "data/index_memory.h"
#include "data/index_set.h"
#include "data/open_files.h"
#include "data/shard_maps.h"
#include "io/completion_thread.h"
#include "penstock/data.h"

namespace penstock::data {

class DatasetImpl final : public Dataset {
 public:
  // Of shards, with their indexes; or of folders, without.
  DatasetImpl(std::unique_ptr<Found> found, std::unique_ptr<IndexSet> indexes,
              const OpenOptions& options);
  ~DatasetImpl() override;

  Format format() const override { return found_->format; }
  uint64_t samples() const override { return samples_; }
  uint64_t bytes() const override { return bytes_; }
  std::span<const Shard> shards() const override { return shards_; }
  const std::vector<std::string>& classes() const override { return found_->classes; }
  bool sequential_only() const override { return sequential_only_; }
  bool local() const override { return local_; }
  uint64_t far_bytes() const override { return far_bytes_; }
  io::CacheMode mode() const override { return mode_; }
  void set_mode(io::CacheMode mode) override;
  std::shared_ptr<cache::Cache> cache() const override { return cache_; }

  Result<SamplePlace> place(uint64_t sample) override;
  uint32_t shard_of(uint64_t sample) const override;
  Result<std::shared_ptr<const ShardIndex>> shard_index(uint32_t shard) override;
  void async_read(uint32_t shard, uint64_t offset, io::MemorySlice into,
                  std::function<void(Result<void>)> done) override;
  Result<void> read_now(uint32_t shard, uint64_t offset, std::span<std::byte> into) override;
  void will_need(uint32_t shard, uint64_t offset, uint64_t length) override;
  void fill_page_cache(uint32_t shard, uint64_t offset, uint64_t length) override;
  uint64_t map_shards() override;
  Result<uint64_t> read_loose(const SamplePlace& place, size_t member,
                              std::span<std::byte> into) override;
  void async_read_loose(const SamplePlace& place, size_t member, io::MemorySlice into,
                        std::function<void(Result<void>)> done) override;
  store::ObjectInfo loose_object(const SamplePlace& place, size_t member) const override;
  void stop_reads() override {
    for (Source& source : found_->sources) source.stop.request_stop();
  }
  Result<std::unique_ptr<SequentialReader>> read_in_order(uint32_t shard) override;
  std::unique_ptr<cache::Stager> make_stager(uint32_t store,
                                             const cache::StageOptions& options) override;

 private:
  using IndexRef = std::shared_ptr<const ShardIndex>;
  struct LocalRead;

  void add_shard(Shard shard);
  void add_found_shards();
  void add_found_folders();
  io::CacheMode find_mode();
  Result<IndexRef> index_of(uint32_t shard);
  const Source& source_of(uint32_t shard) const { return found_->sources[shards_[shard].store]; }
  Result<void> check_read(uint32_t shard, uint64_t offset, uint64_t length) const;
  // False where the shard is not mapped.
  Result<bool> copy_mapped(uint32_t shard, io::File& file, uint64_t offset,
                           std::span<std::byte> into);
  void read_from_file(uint32_t shard, uint64_t offset, io::MemorySlice into,
                      std::function<void(Result<void>)> done);
  void read_from_store(uint32_t shard, uint64_t offset, io::MemorySlice into,
                       std::function<void(Result<void>)> done);
  void read_file_aside(const SamplePlace& place, size_t member, io::MemorySlice into,
                       std::function<void(Result<void>)> done);
  void answer_later(Result<void> answer, std::function<void(Result<void>)> done);

  const std::unique_ptr<Found> found_;
  const std::unique_ptr<IndexSet> indexes_;
  const std::shared_ptr<cache::Cache> cache_;
  std::vector<Shard> shards_;
  std::vector<uint64_t> firsts_;  // First samples, close together for the search.
  uint64_t samples_ = 0;
  uint64_t bytes_ = 0;
  uint64_t far_bytes_ = 0;
  bool sequential_only_ = false;
  bool local_ = true;
  io::CacheMode mode_;

  IndexMemory memory_;
  std::unique_ptr<OpenFiles> files_;
  std::vector<FilledParts> filled_;  // By shard.
  std::unique_ptr<ShardMaps> maps_;  // Null unless map_shards() was called.
  io::CompletionThread answers_;
};

}  // namespace penstock::data
