// Large objects into a file: ranges of one version, each written to its place.
#include <fmt/core.h>

#include "sync/copier.h"

namespace penstock::sync {

namespace {

// Its own sync costs such a file little, and does not wait for what others write.
constexpr uint64_t kSyncedAlone = 64 * kMiB;

}  // namespace

struct Copier::Large {
  CopyItem item;
  std::unique_ptr<StagedFile> file;
  std::mutex mutex;
  uint64_t under_way = 1;  // Ranges, and the one who starts them.
  std::optional<Error> error;

  bool has_failed() {
    std::lock_guard lock(mutex);
    return error.has_value();
  }
};

void Copier::ask_info(CopyItem item) {
  const std::string key = item.key;
  context_.from.store->async_head(
      key, context_.call<store::CallOptions>(),
      [this, item = std::move(item)](const Result<store::ObjectInfo>& info) mutable {
        queue_.release_slot();
        if (!info.ok()) return finished(item, info.error());
        if (info->etag != item.source.etag || info->size != item.source.size) {
          item.source = {info->size, info->mtime_ns, info->etag};
        }
        item.info = *info;
        queue_.push_again(std::move(item));
      });
}

void Copier::start_large(CopyItem item) {
  auto large = std::make_shared<Large>();
  const uint64_t size = item.source.size;
  Result<std::unique_ptr<StagedFile>> file =
      context_.tree->start(item.to, file_mode(item, *item.info).has_value());
  Result<void> ready;
  if (!file.ok()) ready = file.error();
  if (file.ok()) ready = (*file)->reserve(size);
  if (!ready.ok()) {
    queue_.release_slot();
    return finished(item, ready);
  }
  large->item = std::move(item);
  large->file = std::move(*file);
  for (uint64_t offset = 0; offset < size && !large->has_failed(); offset += context_.range_bytes) {
    // The first has the slot of the item.
    if (offset > 0 && !queue_.take_slot()) {
      std::lock_guard lock(large->mutex);
      large->error = make_error(ErrorCode::kCancelled, "stopped");
      break;
    }
    {
      std::lock_guard lock(large->mutex);
      ++large->under_way;
    }
    start_range(large, offset);
  }
  // A sync of a large file must not hold up the rest.
  if (end_range(large, {})) writers_->submit([this, large] { end_large(large); });
}

void Copier::start_range(const std::shared_ptr<Large>& large, uint64_t offset) {
  const uint64_t length = std::min(context_.range_bytes, large->item.source.size - offset);
  const std::stop_token& stop = context_.options.stop;
  Result<void> ready = context_.limiter.acquire(static_cast<double>(length), kNoDeadline, stop);
  Result<io::Buffer> taken = make_error(ErrorCode::kCancelled, "stopped");
  if (ready.ok()) taken = context_.buffers->take(length, kNoDeadline, stop);
  if (!taken.ok()) {
    queue_.release_slot();
    end_range(large, taken.error());  // Never the last: who starts them counts as one.
    return;
  }
  auto buffer = std::make_shared<io::Buffer>(std::move(*taken));
  auto get = context_.call<store::GetOptions>();
  get.if_match = large->item.info->etag;
  get.size = large->item.info->size;
  context_.from.store->async_get(
      large->item.key, offset, buffer->bytes(), std::move(get),
      [this, large, offset, buffer](Result<store::GetResult> got) {
        writers_->submit([this, large, offset, buffer, got = std::move(got)] {
          write_range(large, offset, *buffer, got);
        });
      });
}

void Copier::write_range(const std::shared_ptr<Large>& large, uint64_t offset,
                         const io::Buffer& buffer, const Result<store::GetResult>& got) {
  Result<void> written;
  if (!got.ok()) {
    written = got.error();
  } else if (got->bytes != buffer.size()) {
    written =
        make_error(ErrorCode::kChanged,
                   fmt::format("'{}' became shorter while it was copied", large->item.key), true);
  } else if (!large->has_failed()) {
    context_.tally.moved(got->bytes);
    written = large->file->write(offset, buffer.bytes(), context_.options.verify);
  }
  queue_.release_slot();
  if (end_range(large, written)) end_large(large);
}

// Whether that was the last.
bool Copier::end_range(const std::shared_ptr<Large>& large, const Result<void>& outcome) {
  std::lock_guard lock(large->mutex);
  if (!outcome.ok() && !large->error) large->error = outcome.error();
  return --large->under_way == 0;
}

void Copier::end_large(const std::shared_ptr<Large>& large) {
  CopyItem& item = large->item;
  Result<void> finished;
  if (large->error) finished = *large->error;
  if (finished.ok()) {
    finished = large->file->finish(item.source.size, file_mode(item, *item.info),
                                   file_time(item, *item.info),
                                   /*sync=*/item.source.size >= kSyncedAlone);
  }
  if (finished.ok()) return publish(std::move(item), std::move(large->file));
  large->file.reset();
  try_again_or_fail(std::move(item), finished.error());
}

}  // namespace penstock::sync
