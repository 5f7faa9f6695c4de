#include "data/staged_file.h"

#include <algorithm>
#include <deque>
#include <future>
#include <vector>

namespace penstock::data {

namespace {

// Ranges that end here end with a window, whatever size those of the cache have: no window is in two
// ranges that are under way at once, and so fetched twice.
constexpr uint64_t kUnitBytes = 16 * kMiB;
// A reader that goes further than this in one step may never need what lies between.
constexpr uint64_t kStepBytesMax = kMiB;
// The unit of reads. For smaller ones from front to back the cache would read ahead itself, and fetch
// what is being staged.
constexpr uint64_t kStagedBlock = 512 * kKiB;

class StagedFile final : public ShardFile {
 public:
  StagedFile(std::unique_ptr<ShardFile> file, cache::CachedStore& cached,
             const store::ObjectInfo& object, std::stop_token cancel)
      : file_(std::move(file)), cached_(cached), object_(object) {
    options_.cancel = std::move(cancel);
  }
  ~StagedFile() override { wait_until(UINT64_MAX); }

  const std::string& name() const override { return file_->name(); }
  uint64_t size() const override { return file_->size(); }
  // What is on a drive is read as files of this machine are.
  bool is_remote() const override { return !staging_; }

  Result<void> read(uint64_t offset, std::span<std::byte> into) override {
    PENSTOCK_TRY(check_range(name(), size(), offset, into.size()));
    while (staging_ && !into.empty()) {
      const size_t bytes = std::min<uint64_t>(into.size(), kStagedBlock - offset % kStagedBlock);
      const std::span<const std::byte> block = PENSTOCK_TRY(block_at(offset));
      std::ranges::copy(block.subspan(offset % kStagedBlock, bytes), into.begin());
      into = into.subspan(bytes);
      offset += bytes;
    }
    return into.empty() ? Result<void>() : file_->read(offset, into);
  }
  void start_read(uint64_t offset, io::MemorySlice into, Done done) override {
    file_->start_read(offset, into, std::move(done));
  }

 private:
  struct Range {
    uint64_t begin = 0;
    std::future<Result<uint64_t>> staged;
  };

  // The one that has this byte.
  Result<std::span<const std::byte>> block_at(uint64_t offset) {
    const uint64_t begin = offset - offset % kStagedBlock;
    const size_t bytes = std::min(kStagedBlock, size() - begin);
    if (block_.size() != bytes || block_begin_ != begin) {
      stage(begin, begin + bytes);
      block_.resize(bytes);
      block_begin_ = UINT64_MAX;  // Until it was read.
      PENSTOCK_TRY(file_->read(begin, block_));
      block_begin_ = begin;
    }
    return std::span<const std::byte>(block_);
  }

  void stage(uint64_t begin, uint64_t end) {
    const bool goes_on =
        asked_ > 0 && begin + kUnitBytes >= asked_ && begin <= asked_ + kStepBytesMax;
    if (!goes_on) {
      wait_until(UINT64_MAX);
      asked_ = begin;
      ask(end);
    }
    // The next one comes while the first half of this one is read.
    while (goes_on && staging_ && asked_ < size() && end + kUnitBytes / 2 > asked_) {
      if (asked_ % kUnitBytes != 0) wait_until(UINT64_MAX);
      ask((asked_ / kUnitBytes + 1) * kUnitBytes);
    }
    wait_until(end);
  }

  void ask(uint64_t end) {
    end = std::min(end, size());
    auto promise = std::make_shared<std::promise<Result<uint64_t>>>();
    ranges_.push_back({asked_, promise->get_future()});
    cached_.async_stage(
        {object_.key, object_.etag, object_.size, asked_, end - asked_}, /*verify=*/false, options_,
        [promise](Result<uint64_t> staged) { promise->set_value(std::move(staged)); });
    asked_ = end;
  }

  // Until all that was asked for in front of `end` is there, or cannot be.
  void wait_until(uint64_t end) {
    while (!ranges_.empty() && ranges_.front().begin < end) {
      staging_ = ranges_.front().staged.get().ok() && staging_;
      ranges_.pop_front();
    }
  }

  const std::unique_ptr<ShardFile> file_;
  cache::CachedStore& cached_;
  const store::ObjectInfo object_;
  store::CallOptions options_;
  std::deque<Range> ranges_;  // Under way.
  uint64_t asked_ = 0;        // Up to here; where nothing was yet: 0.
  bool staging_ = true;
  uint64_t block_begin_ = UINT64_MAX;
  std::vector<std::byte> block_;
};

}  // namespace

std::unique_ptr<ShardFile> make_staged_file(std::unique_ptr<ShardFile> file,
                                            cache::CachedStore& cached,
                                            const store::ObjectInfo& object,
                                            std::stop_token cancel) {
  // Of one that does not fit, the cache keeps what its readers want of it.
  if (object.size > cached.cache()->stats().limit_bytes) return file;
  return std::make_unique<StagedFile>(std::move(file), cached, object, std::move(cancel));
}

}  // namespace penstock::data
