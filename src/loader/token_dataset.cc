#include "loader/token_dataset.h"

#include <fmt/core.h>

namespace penstock::loader {

namespace {

// Where one sample is: made for each, because none is kept.
class TokenSample final : public data::ShardIndex {
 public:
  TokenSample(uint64_t offset, uint64_t size) {
    constexpr uint64_t kMask = (uint64_t{1} << 48) - 1;
    member_.offset = offset & kMask;
    member_.size = size & kMask;
  }
  uint32_t samples() const override { return 1; }
  std::string_view key(uint32_t) const override { return {}; }
  std::span<const data::Member> members(uint32_t) const override { return {&member_, 1}; }
  std::string path(uint32_t, size_t) const override { return {}; }
  const std::vector<std::string>& fields() const override {
    static const std::vector<std::string> kFields = {"tokens"};
    return kFields;
  }
  uint64_t memory_bytes() const override { return sizeof(*this); }

 private:
  data::Member member_{};
};

class TokenDatasetImpl final : public TokenDataset {
 public:
  TokenDatasetImpl(std::unique_ptr<data::TokenFile> file, uint32_t seq_length, uint64_t begin,
                   uint64_t tokens, std::shared_ptr<cache::Cache> cache)
      : file_(std::move(file)),
        cache_(std::move(cache)),
        token_bytes_(data::token_bytes(file_->type())),
        begin_(begin) {
    step_bytes_ = seq_length * token_bytes_;
    data::Shard shard;
    shard.name = file_->name();
    shard.key = file_->object().key;
    shard.version = file_->object().etag;
    shard.size = file_->bytes();
    shard.samples = (tokens - 1) / seq_length;
    shards_.push_back(std::move(shard));
  }

  data::TokenType type() const override { return file_->type(); }
  uint64_t sample_bytes() const override { return step_bytes_ + token_bytes_; }
  Result<void> read_sample(uint64_t sample, std::span<std::byte> into) override {
    return file_->read_bytes(begin_ + sample * step_bytes_, into);
  }
  Result<void> check_size() override { return file_->check_size(); }
  data::Format format() const override { return data::Format::kFiles; }
  uint64_t samples() const override { return shards_[0].samples; }
  uint64_t bytes() const override { return file_->bytes(); }
  std::span<const data::Shard> shards() const override { return shards_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  bool sequential_only() const override { return false; }
  bool local() const override { return file_->local(); }
  void stop_reads() override { file_->stop_reads(); }
  uint64_t far_bytes() const override { return file_->far() ? file_->bytes() : 0; }
  io::CacheMode mode() const override { return io::CacheMode::kBuffered; }
  void set_mode(io::CacheMode) override {}
  std::shared_ptr<cache::Cache> cache() const override { return local() ? nullptr : cache_; }

  Result<data::SamplePlace> place(uint64_t sample) override {
    data::SamplePlace place;
    place.index =
        std::make_shared<TokenSample>(begin_ + sample * step_bytes_, step_bytes_ + token_bytes_);
    place.members = place.index->members(0);
    return place;
  }
  uint32_t shard_of(uint64_t) const override { return 0; }
  Result<std::shared_ptr<const data::ShardIndex>> shard_index(uint32_t) override {
    return make_error(ErrorCode::kUnsupported, "tokens have no index of samples");
  }
  void async_read(uint32_t, uint64_t offset, io::MemorySlice into,
                  std::function<void(Result<void>)> done) override {
    file_->async_read(offset, into, std::move(done));
  }
  Result<void> read_now(uint32_t, uint64_t offset, std::span<std::byte> into) override {
    PENSTOCK_TRY(file_->read_bytes(offset, into));
    return file_->check_size();
  }
  void will_need(uint32_t, uint64_t, uint64_t) override {}
  void fill_page_cache(uint32_t, uint64_t offset, uint64_t length) override {
    file_->fill_page_cache(offset, length);
  }
  Result<uint64_t> read_loose(const data::SamplePlace&, size_t, std::span<std::byte>) override {
    return make_error(ErrorCode::kUnsupported, "tokens are in one file");
  }
  void async_read_loose(const data::SamplePlace&, size_t, io::MemorySlice,
                        std::function<void(Result<void>)> done) override {
    done(make_error(ErrorCode::kUnsupported, "tokens are in one file"));
  }
  store::ObjectInfo loose_object(const data::SamplePlace&, size_t) const override { return {}; }
  Result<std::unique_ptr<data::SequentialReader>> read_in_order(uint32_t) override {
    return make_error(ErrorCode::kUnsupported, "tokens are read by their places");
  }
  std::unique_ptr<cache::Stager> make_stager(uint32_t,
                                             const cache::StageOptions& options) override {
    return file_->make_stager(options);
  }

 private:
  const std::unique_ptr<data::TokenFile> file_;
  const std::shared_ptr<cache::Cache> cache_;
  const uint64_t token_bytes_;
  const uint64_t begin_;
  uint64_t step_bytes_ = 0;
  std::vector<data::Shard> shards_;
  std::vector<std::string> classes_;
};

}  // namespace

Result<std::unique_ptr<TokenDataset>> TokenDataset::open(const std::string& address,
                                                         uint32_t seq_length,
                                                         const data::OpenOptions& options) {
  auto file = PENSTOCK_TRY(data::TokenFile::open(address, options));
  const uint64_t size = data::token_bytes(file->type());
  uint64_t tokens = 0;
  for (uint64_t i = 0; i < file->sequences(); ++i) {
    if (file->offset(i) != file->offset(0) + tokens * size) {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{}: sequence {} does not begin where the one before ends: only "
                      "tokens that lie back to back can be cut into samples",
                      address, i));
    }
    tokens += file->length(i);
  }
  if (tokens <= seq_length) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} has {} tokens, and one sample takes {} and one more", address,
                                  tokens, seq_length));
  }
  const uint64_t begin = file->offset(0);
  return std::unique_ptr<TokenDataset>(std::make_unique<TokenDatasetImpl>(
      std::move(file), seq_length, begin, tokens, options.cache));
}

}  // namespace penstock::loader
