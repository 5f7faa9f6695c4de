// A dataset in memory whose samples are known by their numbers. For tests.
#pragma once

#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "penstock/data.h"

namespace penstock::loader {

// Sample i of all has the fields "txt" (its number as text, padded with spaces to an uneven length)
// and "cls" (its number modulo 10), apart by 512 bytes, as in a tar.
class FakeDataset final : public data::Dataset {
 public:
  struct Options {
    std::vector<uint32_t> shard_samples = {100};
    bool local = true;
    io::CacheMode mode = io::CacheMode::kBuffered;
    uint32_t padding_max = 3000;
  };

  explicit FakeDataset(Options options)
      : options_(std::move(options)), reads_("fake-read", 4, 4096) {
    uint64_t number = 0;
    for (const uint32_t count : options_.shard_samples) add_shard(count, number);
  }

  data::Format format() const override { return data::Format::kTar; }
  uint64_t samples() const override { return samples_; }
  uint64_t bytes() const override { return bytes_; }
  std::span<const data::Shard> shards() const override { return shards_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  bool sequential_only() const override { return false; }
  bool local() const override { return options_.local; }
  uint64_t far_bytes() const override { return 0; }
  void stop_reads() override {}
  io::CacheMode mode() const override { return options_.mode; }
  void set_mode(io::CacheMode) override {}
  std::shared_ptr<cache::Cache> cache() const override { return cache_behind; }

  Result<data::SamplePlace> place(uint64_t sample) override {
    const uint32_t shard = shard_of(sample);
    data::SamplePlace place;
    place.shard = shard;
    place.sample = static_cast<uint32_t>(sample - shards_[shard].first_sample);
    place.index = indexes_[shard];
    place.members = place.index->members(place.sample);
    return place;
  }
  uint32_t shard_of(uint64_t sample) const override {
    uint32_t shard = 0;
    while (sample >= shards_[shard].first_sample + shards_[shard].samples) ++shard;
    return shard;
  }
  Result<std::shared_ptr<const data::ShardIndex>> shard_index(uint32_t shard) override {
    return std::shared_ptr<const data::ShardIndex>(indexes_[shard]);
  }
  void async_read(uint32_t shard, uint64_t offset, io::MemorySlice into,
                  std::function<void(Result<void>)> done) override {
    reads_.submit([this, shard, offset, into, done = std::move(done)]() mutable {
      done(read_now(shard, offset, {into.data, into.size}));
      const std::lock_guard lock(kept_mutex_);
      if (keep_done) kept_.push_back(std::move(done));
    });
  }
  Result<void> read_now(uint32_t shard, uint64_t offset, std::span<std::byte> into) override {
    if (broken_shards.contains(shard)) return make_error(broken_as, "a broken shard");
    const std::string& bytes = contents_[shard];
    if (offset + into.size() > bytes.size()) return make_error(ErrorCode::kCorrupt, "past its end");
    std::memcpy(into.data(), bytes.data() + offset, into.size());
    return {};
  }
  void will_need(uint32_t, uint64_t, uint64_t) override {}
  Result<uint64_t> read_loose(const data::SamplePlace&, size_t, std::span<std::byte>) override {
    return make_error(ErrorCode::kUnsupported, "none is loose");
  }
  void async_read_loose(const data::SamplePlace&, size_t, io::MemorySlice,
                        std::function<void(Result<void>)> done) override {
    done(make_error(ErrorCode::kUnsupported, "none is loose"));
  }
  store::ObjectInfo loose_object(const data::SamplePlace&, size_t) const override { return {}; }
  Result<std::unique_ptr<data::SequentialReader>> read_in_order(uint32_t) override {
    return make_error(ErrorCode::kUnsupported, "none is compressed");
  }
  std::unique_ptr<cache::Stager> make_stager(uint32_t,
                                             const cache::StageOptions& options) override {
    return stager ? stager(options) : nullptr;
  }

  std::set<uint32_t> broken_shards;
  ErrorCode broken_as = ErrorCode::kIo;
  bool keep_done = false;  // As a store may, for a while.
  std::shared_ptr<cache::Cache> cache_behind;
  std::function<std::unique_ptr<cache::Stager>(const cache::StageOptions&)> stager;

 private:
  class Index final : public data::ShardIndex {
   public:
    uint32_t samples() const override { return static_cast<uint32_t>(all.size() / 2); }
    std::string_view key(uint32_t sample) const override { return keys[sample]; }
    std::span<const data::Member> members(uint32_t sample) const override {
      return {&all[sample * 2], 2};
    }
    std::string path(uint32_t, size_t) const override { return {}; }
    const std::vector<std::string>& fields() const override { return names; }
    uint64_t memory_bytes() const override { return 0; }

    std::vector<data::Member> all;
    std::vector<std::string> keys;
    std::vector<std::string> names = {"txt", "cls"};
  };

  void add_shard(uint32_t count, uint64_t& number) {
    auto index = std::make_shared<Index>();
    std::string bytes;
    const auto add = [&](const std::string& value, uint64_t field) {
      bytes.resize((bytes.size() + 511) / 512 * 512 + 512, '\xff');
      data::Member member{};
      member.offset = bytes.size() & ((uint64_t{1} << 48) - 1);
      member.size = value.size() & ((uint64_t{1} << 48) - 1);
      member.field = field & 0xffff;
      index->all.push_back(member);
      bytes += value;
    };
    data::Shard shard;
    shard.name = "shard-" + std::to_string(shards_.size());
    shard.key = shard.name;
    shard.version = "version-" + std::to_string(shards_.size());
    shard.first_sample = number;
    shard.samples = count;
    for (uint32_t i = 0; i < count; ++i, ++number) {
      std::string text = std::to_string(number);
      text.resize(text.size() + number * 7919 % options_.padding_max, ' ');
      add(text, 0);
      add(std::to_string(number % 10), 1);
      index->keys.push_back("key-" + std::to_string(number));
    }
    shard.size = bytes.size();
    samples_ += count;
    bytes_ += bytes.size();
    shards_.push_back(std::move(shard));
    contents_.push_back(std::move(bytes));
    indexes_.push_back(std::move(index));
  }

  const Options options_;
  std::vector<data::Shard> shards_;
  std::vector<std::string> contents_;
  std::vector<std::shared_ptr<Index>> indexes_;
  std::vector<std::string> classes_;
  uint64_t samples_ = 0;
  uint64_t bytes_ = 0;
  std::mutex kept_mutex_;
  std::vector<std::function<void(Result<void>)>> kept_;
  ThreadPool reads_;
};

}  // namespace penstock::loader
