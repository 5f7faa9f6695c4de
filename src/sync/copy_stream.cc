// Large objects into a store: ranges of one version, read ahead and uploaded in their order.
#include <fmt/core.h>

#include <deque>
#include <future>

#include "sync/copier.h"

namespace penstock::sync {

namespace {

constexpr size_t kRangesAhead = 4;

}  // namespace

// The ranges of an object that are being read. Takes more than one range's memory only while there
// is plenty, so that many streams never wait for each other.
class Copier::Stream {
 public:
  Stream(Context& context, const CopyItem& item)
      : context_(context),
        item_(item),
        on_stop_(context.options.stop, [this] { stop_.request_stop(); }) {}

  // What was started uses the buffers until it is done.
  ~Stream() {
    stop_.request_stop();
    for (Range& range : ranges_) {
      if (range.got.valid()) range.got.wait();
    }
  }

  // The next range; nothing after the last.
  Result<std::optional<io::Buffer>> next() {
    while (offset_ < item_.source.size && ranges_.size() < kRangesAhead) {
      const bool has_memory = PENSTOCK_TRY(read_ahead());
      if (!has_memory) break;
    }
    if (ranges_.empty()) return std::optional<io::Buffer>();
    Range& range = ranges_.front();
    const store::GetResult got = PENSTOCK_TRY(range.got.get());
    if (got.bytes != range.buffer.size()) {
      return make_error(ErrorCode::kChanged,
                        fmt::format("'{}' became shorter while it was copied", item_.key), true);
    }
    std::optional<io::Buffer> buffer(std::move(range.buffer));
    ranges_.pop_front();
    return buffer;
  }

 private:
  struct Range {
    io::Buffer buffer;
    std::future<Result<store::GetResult>> got;
  };

  // False when there is no memory for it now, and the caller has something to go on with.
  Result<bool> read_ahead() {
    const uint64_t length = std::min(context_.range_bytes, item_.source.size - offset_);
    const std::stop_token stop = context_.options.stop;
    Result<io::Buffer> buffer = ranges_.empty() ? context_.buffers->take(length, kNoDeadline, stop)
                                                : context_.buffers->try_take(length);
    if (!buffer.ok() && buffer.error().code == ErrorCode::kBusy) return false;
    if (!buffer.ok()) return std::move(buffer).error();
    PENSTOCK_TRY(context_.limiter.acquire(static_cast<double>(length), kNoDeadline, stop));
    store::GetOptions get;
    get.cancel = stop_.get_token();
    get.if_match = item_.info->etag;
    get.size = item_.info->size;
    auto promise = std::make_shared<std::promise<Result<store::GetResult>>>();
    ranges_.push_back({std::move(*buffer), promise->get_future()});
    context_.from.store->async_get(
        item_.key, offset_, ranges_.back().buffer.bytes(), std::move(get),
        [promise](Result<store::GetResult> got) { promise->set_value(std::move(got)); });
    offset_ += length;
    return true;
  }

  Context& context_;
  const CopyItem& item_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> on_stop_;
  uint64_t offset_ = 0;
  std::deque<Range> ranges_;
};

void Copier::start_stream(CopyItem item) {
  queue_.release_slot();  // Streams have threads of their own; their number is their bound.
  streams_->submit([this, item = std::move(item)]() mutable {
    const Result<void> copied = copy_stream(item);
    if (copied.ok()) return finished(item, copied);
    try_again_or_fail(std::move(item), copied.error());
  });
}

Result<void> Copier::copy_stream(const CopyItem& item) {
  const std::unique_ptr<store::Upload> upload =
      PENSTOCK_TRY(context_.to.store->start_upload(item.to, put_options(item, *item.info)));
  Stream stream(context_, item);
  while (std::optional<io::Buffer> range = PENSTOCK_TRY(stream.next())) {
    PENSTOCK_TRY(upload->write(range->bytes()));
    context_.tally.moved(range->size());
  }
  const store::ObjectInfo put = PENSTOCK_TRY(upload->finish());
  if (put.size == item.source.size) return {};
  return make_error(ErrorCode::kCorrupt, fmt::format("'{}' has {} bytes, and arrived with {}",
                                                     item.key, item.source.size, put.size));
}

}  // namespace penstock::sync
