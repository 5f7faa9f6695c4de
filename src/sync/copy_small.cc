// Objects that fit into memory: one get, one put.
#include <fmt/core.h>

#include "sync/copier.h"

namespace penstock::sync {

struct Copier::Small {
  CopyItem item;
  io::Buffer buffer;
  store::ObjectInfo info;

  std::span<std::byte> bytes() const { return buffer.bytes().first(item.source.size); }
};

void Copier::start_small(CopyItem item) {
  const uint64_t size = item.source.size;
  auto job = std::make_shared<Small>();
  Result<void> ready =
      context_.limiter.acquire(static_cast<double>(size), kNoDeadline, context_.options.stop);
  if (ready.ok() && size > 0) {
    Result<io::Buffer> buffer = context_.buffers->take(size, kNoDeadline, context_.options.stop);
    if (buffer.ok()) job->buffer = std::move(*buffer);
    if (!buffer.ok()) ready = buffer.error();
  }
  if (!ready.ok()) {
    queue_.release_slot();
    return finished(item, ready);
  }
  job->item = std::move(item);
  context_.from.store->async_get(
      job->item.key, 0, job->bytes(), context_.call<store::GetOptions>(),
      [this, job](Result<store::GetResult> got) { on_small_read(job, std::move(got)); });
}

void Copier::on_small_read(const std::shared_ptr<Small>& job, Result<store::GetResult> got) {
  const uint64_t size = job->item.source.size;
  Result<void> read;
  if (!got.ok()) read = got.error();
  if (got.ok() && (got->info.size != size || got->bytes != size)) {
    read = make_error(ErrorCode::kChanged,
                      fmt::format("'{}' changed while it was copied: it had {} bytes, now {}",
                                  job->item.key, size, got->info.size),
                      true);
  }
  if (!read.ok()) {
    job->buffer = {};
    queue_.release_slot();
    return try_again_or_fail(std::move(job->item), read.error());
  }
  context_.tally.moved(size);
  job->info = std::move(got->info);
  put_small(job);
}

void Copier::put_small(const std::shared_ptr<Small>& job) {
  if (context_.tree) {
    writers_->submit([this, job] {
      Result<std::unique_ptr<StagedFile>> file = stage_small(*job);
      job->buffer = {};
      queue_.release_slot();
      if (!file.ok()) return try_again_or_fail(std::move(job->item), file.error());
      publish(std::move(job->item), std::move(*file));
    });
    return;
  }
  context_.to.store->async_put(job->item.to, job->bytes(), put_options(job->item, job->info),
                               [this, job](const Result<store::ObjectInfo>& put) {
                                 job->buffer = {};
                                 queue_.release_slot();
                                 finished(job->item,
                                          put.ok() ? Result<void>() : Result<void>(put.error()));
                               });
}

Result<std::unique_ptr<StagedFile>> Copier::stage_small(const Small& job) {
  const std::optional<uint32_t> mode = file_mode(job.item, job.info);
  std::unique_ptr<StagedFile> file =
      PENSTOCK_TRY(context_.tree->start(job.item.to, mode.has_value()));
  PENSTOCK_TRY(file->write(0, job.bytes(), context_.options.verify));
  PENSTOCK_TRY(file->finish(job.item.source.size, mode, file_time(job.item, job.info),
                            /*sync=*/false));
  return file;
}

}  // namespace penstock::sync
