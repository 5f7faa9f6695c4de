#include "mount/metrics_file.h"

#include <fmt/core.h>

#include "base/log.h"
#include "base/thread_pool.h"

namespace penstock::mount {

namespace {

// Whoever collects is another user, as a rule.
constexpr uint32_t kPermissions = 0644;

}  // namespace

MetricsFile::MetricsFile(io::FileSystem& fs, std::string path, Text text, Nanoseconds every)
    : fs_(fs), path_(std::move(path)), text_(std::move(text)), every_(every) {}

Result<std::unique_ptr<MetricsFile>> MetricsFile::start(io::FileSystem& fs, std::string path,
                                                        Text text, Nanoseconds every) {
  std::unique_ptr<MetricsFile> file(new MetricsFile(fs, std::move(path), std::move(text), every));
  PENSTOCK_TRY(file->write());
  file->writer_ = std::thread([raw = file.get()] { raw->run(); });
  return file;
}

MetricsFile::~MetricsFile() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  writer_.join();
  const Result<void> removed = fs_.remove(path_);
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) {
    log_warn("the file of metrics could not be removed", {{"error", removed.error().detail}});
  }
}

// Not made durable: after a power cut there is nobody whose metrics it could hold.
Result<void> MetricsFile::write() {
  const std::string text = PENSTOCK_TRY(text_());
  const std::string beside = path_ + ".tmp";
  // One that a dead process left, or that somebody planted, is not written to.
  (void)fs_.remove(beside);
  const auto put = [&]() -> Result<void> {
    const std::unique_ptr<io::File> file =
        PENSTOCK_TRY(fs_.open(beside, {.access = io::Access::kReadWrite,
                                       .create = io::Create::kMustNotExist,
                                       .permissions = kPermissions}));
    PENSTOCK_TRY(file->write(0, std::as_bytes(std::span(text))));
    return fs_.rename(beside, path_);
  };
  const Result<void> done = put();
  if (!done.ok()) (void)fs_.remove(beside);
  return done;
}

void MetricsFile::run() {
  set_thread_name("mount-metrics");
  bool failing = false;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, every_, [this] { return stopping_; })) {
    lock.unlock();
    const Result<void> written = write();
    // Once for each time that it begins to fail.
    if (!written.ok() && !failing) {
      log_warn("metrics cannot be written", {{"file", path_}, {"error", written.error().detail}});
    }
    failing = !written.ok();
    lock.lock();
  }
}

}  // namespace penstock::mount
