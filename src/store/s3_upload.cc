#include <fmt/core.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "store/s3_object.h"
#include "store/s3_store.h"
#include "store/s3_xml.h"
#include "store/wait_for.h"

namespace penstock::store {

namespace {

constexpr size_t kUploadPartsMax = 10'000;
constexpr Nanoseconds kAbortTime = std::chrono::seconds(30);

// So that an object of that size has no more parts than there may be.
size_t part_bytes_for(const S3Options& options, std::optional<uint64_t> size) {
  const uint64_t needed = (size.value_or(0) + kUploadPartsMax - 1) / kUploadPartsMax;
  if (needed <= options.part_bytes) return options.part_bytes;
  return (needed + kMiB - 1) / kMiB * kMiB;
}

// Larger parts, fewer of them: the memory stays about the same.
size_t buffers_for(const S3Options& options, size_t part_bytes) {
  const uint64_t fit = options.parts_in_flight * options.part_bytes / part_bytes;
  return std::max<uint64_t>(fit, std::min<uint32_t>(options.parts_in_flight, 2));
}

// An object written piece by piece. As long as it fits into one part nothing is sent, and finish()
// is a plain PUT. Memory: at most parts_in_flight buffers of part_bytes, the one being filled
// included.
class S3Upload : public Upload {
 public:
  S3Upload(std::shared_ptr<S3Client> client, std::string key, std::string shown_key,
           const PutOptions& options)
      : client_(std::move(client)),
        key_(std::move(key)),
        shown_key_(std::move(shown_key)),
        options_(options),
        part_bytes_(part_bytes_for(client_->options(), options.size)),
        buffers_max_(buffers_for(client_->options(), part_bytes_)),
        on_cancel_(options.cancel, [this] { stop_.request_stop(); }) {
    options_.cancel = stop_.get_token();
  }
  ~S3Upload() override { abort(); }

  Result<void> write(std::span<const std::byte> bytes) override;
  Result<ObjectInfo> finish() override;
  void abort() override;

 private:
  using Buffer = std::vector<std::byte>;

  Result<void> check_open();
  Result<void> take_buffer();
  Result<void> send_part();
  Result<ObjectInfo> complete();
  void wait_for_parts();
  void on_part(size_t index, Buffer* buffer, const Result<HttpResponse>& response);

  const std::shared_ptr<S3Client> client_;
  const std::string key_;
  const std::string shown_key_;
  PutOptions options_;
  const size_t part_bytes_;
  const size_t buffers_max_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> on_cancel_;

  Buffer* filling_ = nullptr;
  uint64_t size_ = 0;
  S3UploadId upload_;
  bool closed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // All of them.
  std::vector<Buffer*> free_;
  size_t in_flight_ = 0;
  std::vector<std::string> etags_;
  std::optional<Error> error_;
};

Result<void> S3Upload::check_open() {
  if (closed_) {
    return make_error(ErrorCode::kClosed,
                      fmt::format("the upload of {} was finished or aborted", shown_key_));
  }
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return {};
}

// Waits for a buffer to fill.
Result<void> S3Upload::take_buffer() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || !free_.empty() || buffers_.size() < buffers_max_; });
  if (error_) return *error_;
  if (free_.empty()) {
    buffers_.push_back(std::make_unique<Buffer>());
    free_.push_back(buffers_.back().get());
  }
  filling_ = free_.back();
  free_.pop_back();
  filling_->clear();
  return {};
}

Result<void> S3Upload::write(std::span<const std::byte> bytes) {
  PENSTOCK_TRY(check_open());
  while (!bytes.empty()) {
    // A full part goes only when more follows, so that what fits into one stays a plain PUT.
    if (filling_ != nullptr && filling_->size() == part_bytes_) PENSTOCK_TRY(send_part());
    if (filling_ == nullptr) PENSTOCK_TRY(take_buffer());
    const size_t count = std::min(bytes.size(), part_bytes_ - filling_->size());
    if (size_ >= part_bytes_) filling_->reserve(part_bytes_);  // It will be filled.
    filling_->insert(filling_->end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    size_ += count;
  }
  return {};
}

Result<void> S3Upload::send_part() {
  if (upload_.id.empty()) {
    upload_ = PENSTOCK_TRY(wait_for<S3UploadId>(
        [&](Done<S3UploadId> done) { begin_upload(*client_, key_, options_, std::move(done)); }));
  }
  Buffer* buffer = std::exchange(filling_, nullptr);
  size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    index = etags_.size();
    if (index == kUploadPartsMax) {
      error_ = make_error(
          ErrorCode::kInvalid,
          fmt::format("{} is larger than 10000 parts of {}: raise the S3 option part_bytes",
                      shown_key_, format_size(part_bytes_)));
      return *error_;
    }
    etags_.emplace_back();
    ++in_flight_;
  }
  S3Request request;
  request.op = S3Op::kUpload;
  request.method = HttpMethod::kPut;
  request.key = key_;
  request.query = {{"partNumber", std::to_string(index + 1)}, {"uploadId", upload_.id}};
  request.body = *buffer;
  request.body_hash = client_->hash_of(request.body);
  request.call = options_;
  client_->send(std::move(request),
                [this, index, buffer](const Result<HttpResponse>& response, const S3History&) {
                  on_part(index, buffer, response);
                });
  return {};
}

void S3Upload::on_part(size_t index, Buffer* buffer, const Result<HttpResponse>& response) {
  std::lock_guard lock(mutex_);
  if (response.ok()) {
    etags_[index] = without_quotes(response->header("etag"));
    S3Metrics::get().bytes_written->add(buffer->size());
  } else if (!error_) {
    error_ = response.error();
  }
  free_.push_back(buffer);
  --in_flight_;
  changed_.notify_all();  // Under the lock: whoever waits may destroy us.
}

void S3Upload::wait_for_parts() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return in_flight_ == 0; });
}

Result<ObjectInfo> S3Upload::finish() {
  PENSTOCK_TRY(check_open());
  Result<ObjectInfo> info = complete();
  if (info.ok()) {
    info->key = shown_key_;
    closed_ = true;
    return info;
  }
  std::lock_guard lock(mutex_);
  if (!error_) error_ = info.error();
  return info;
}

Result<ObjectInfo> S3Upload::complete() {
  if (upload_.id.empty()) {
    const std::span<const std::byte> bytes =
        filling_ == nullptr ? std::span<const std::byte>() : std::span<const std::byte>(*filling_);
    return wait_for<ObjectInfo>([&](Done<ObjectInfo> done) {
      put_object(*client_, key_, bytes, options_, std::move(done));
    });
  }
  if (filling_ != nullptr) PENSTOCK_TRY(send_part());
  wait_for_parts();
  PENSTOCK_TRY(check_open());
  return wait_for<ObjectInfo>([&](Done<ObjectInfo> done) {
    complete_upload(*client_, upload_, etags_, size_, options_, std::move(done));
  });
}

void S3Upload::abort() {
  if (std::exchange(closed_, true)) return;
  stop_.request_stop();
  bool had_parts = false;
  {
    std::lock_guard lock(mutex_);
    had_parts = in_flight_ > 0;
  }
  wait_for_parts();
  if (upload_.id.empty()) return;
  // A part that was cut off may still have been written after the first abort; the second takes it.
  for (int i = 0; i < (had_parts ? 2 : 1); ++i) {
    const Result<void> aborted = wait_for<void>([&](Done<void> done) {
      abort_upload(*client_, upload_, {.deadline = deadline_in(kAbortTime)}, std::move(done));
    });
    if (aborted.ok()) continue;
    log_warn("an upload could not be aborted; its parts stay until the bucket's rules remove them",
             {{"key", key_}, {"reason", aborted.error().detail}});
    return;
  }
}

}  // namespace

std::unique_ptr<Upload> make_s3_upload(std::shared_ptr<S3Client> client, std::string key,
                                       std::string shown_key, const PutOptions& options) {
  return std::make_unique<S3Upload>(std::move(client), std::move(key), std::move(shown_key),
                                    options);
}

}  // namespace penstock::store
