#include "data/window_reader.h"

#include <algorithm>
#include <future>

namespace penstock::data {

namespace {

constexpr size_t kAheadMax = 3;
// Reading on costs less than another read. Of a remote shard: a request is worth about this much.
constexpr uint64_t kSkipLocalBytes = 128 * kKiB;
constexpr uint64_t kSkipRemoteBytes = kMiB;
constexpr size_t kFirstLocalBytes = 16 * kKiB;
constexpr size_t kFirstRemoteBytes = 256 * kKiB;

}  // namespace

struct WindowReader::Ahead {
  uint64_t offset = 0;
  std::vector<std::byte> bytes;
  std::promise<Result<void>> promise;
  std::future<Result<void>> read = promise.get_future();
  uint64_t end() const { return offset + bytes.size(); }
};

WindowReader::WindowReader(ShardFile& file, std::stop_token cancel, std::atomic<uint64_t>* progress)
    : file_(file),
      cancel_(std::move(cancel)),
      progress_(progress),
      step_(file.is_remote() ? kFirstRemoteBytes : kFirstLocalBytes) {}

WindowReader::~WindowReader() {
  drop_ahead();
}

void WindowReader::tell(uint64_t offset) {
  if (progress_ != nullptr && offset > told_) progress_->fetch_add(offset - told_);
  told_ = std::max(told_, offset);
}

Result<std::span<const std::byte>> WindowReader::at(uint64_t offset, size_t length) {
  if (offset < window_at_ || offset + length > window_end()) PENSTOCK_TRY(fill(offset, length));
  return std::span<const std::byte>(window_).subspan(offset - window_at_, length);
}

Result<void> WindowReader::fill(uint64_t offset, size_t length) {
  if (cancel_.stop_requested()) {
    return make_error(ErrorCode::kCancelled, "reading of " + name() + " was cancelled");
  }
  PENSTOCK_TRY(check_range(name(), size(), offset, length));
  tell(offset);
  const uint64_t skip_max = file_.is_remote() ? kSkipRemoteBytes : kSkipLocalBytes;
  const bool is_next = offset <= window_end() + skip_max;
  step_ = is_next ? std::min(2 * step_, kWindowBytesMax)
                  : (file_.is_remote() ? kFirstRemoteBytes : kFirstLocalBytes);
  if (offset < window_end()) {
    window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(offset - window_at_));
  } else {
    window_.clear();
  }
  window_at_ = offset;
  while (window_.size() < length) {
    if (PENSTOCK_TRY(append_ahead(window_end()))) continue;
    PENSTOCK_TRY(append(window_end(), std::max(step_, length - window_.size())));
  }
  if (is_next && file_.is_remote() && step_ == kWindowBytesMax) read_ahead();
  return {};
}

Result<void> WindowReader::append(uint64_t from, size_t wanted) {
  const size_t have = window_.size();
  const size_t bytes = std::min<uint64_t>(wanted, size() - from);
  window_.resize(have + bytes);
  const Result<void> read = file_.read(from, std::span(window_).subspan(have));
  if (!read.ok()) window_.resize(have);
  return read;
}

// Whether what was read ahead has the bytes from `from` on.
Result<bool> WindowReader::append_ahead(uint64_t from) {
  while (!ahead_.empty() && ahead_.front()->end() <= from) {
    ahead_.front()->read.wait();
    ahead_.pop_front();
  }
  if (ahead_.empty() || ahead_.front()->offset > from) {
    drop_ahead();
    return false;
  }
  const std::shared_ptr<Ahead> front = std::move(ahead_.front());
  ahead_.pop_front();
  PENSTOCK_TRY(front->read.get());
  window_.insert(window_.end(), front->bytes.begin() + static_cast<ptrdiff_t>(from - front->offset),
                 front->bytes.end());
  return true;
}

void WindowReader::read_ahead() {
  while (ahead_.size() < kAheadMax) {
    const uint64_t from = ahead_.empty() ? window_end() : ahead_.back()->end();
    const size_t bytes = std::min<uint64_t>(kWindowBytesMax, size() - from);
    if (bytes == 0) return;
    auto ahead = std::make_shared<Ahead>();
    ahead->offset = from;
    ahead->bytes.resize(bytes);
    file_.start_read(from, std::span(ahead->bytes),
                     [ahead](Result<void> read) { ahead->promise.set_value(std::move(read)); });
    ahead_.push_back(std::move(ahead));
  }
}

void WindowReader::drop_ahead() {
  for (const std::shared_ptr<Ahead>& ahead : ahead_) {
    if (ahead->read.valid()) ahead->read.wait();
  }
  ahead_.clear();
}

}  // namespace penstock::data
