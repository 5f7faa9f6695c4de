#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "store/s3_object.h"
#include "store/s3_store.h"
#include "store/s3_xml.h"

namespace penstock::store {

namespace {

constexpr uint64_t kPartsMax = 10'000;
constexpr uint32_t kCopyRounds = 3;  // Of beginning anew because the source changed.

// Copies within the server: in one request, or in parts when the object is too large for one. The
// source's etag, asked for first, is named in each request, so that all parts are of one version.
class Copy : public std::enable_shared_from_this<Copy> {
 public:
  Copy(S3Client& source_client, std::string from, S3Client& client, std::string to,
       const S3StoreSettings& settings, const CallOptions& options, Done<ObjectInfo> done)
      : source_client_(source_client),
        client_(client),
        from_(std::move(from)),
        to_(std::move(to)),
        settings_(settings),
        options_(options),
        done_(std::move(done)) {}

  void start();

 private:
  void on_source(Result<ObjectInfo> source);
  S3Request copy_request() const;
  PutOptions put_options() const;
  void copy_whole();
  void copy_parts();
  void start_parts(S3UploadId upload);
  void send_part(size_t index);
  void on_part(size_t index, const Result<HttpResponse>& response);
  void complete();
  void fail(Error error);

  S3Client& source_client_;
  S3Client& client_;
  const std::string from_;
  const std::string to_;
  const S3StoreSettings settings_;
  const CallOptions options_;
  const Done<ObjectInfo> done_;
  uint32_t round_ = 0;
  ObjectInfo source_;

  S3UploadId upload_;
  uint64_t part_bytes_ = 0;
  std::mutex mutex_;
  std::vector<std::string> etags_;
  size_t next_part_ = 0;
  size_t under_way_ = 0;
  std::optional<Error> error_;
};

void Copy::start() {
  ++round_;
  head_object(source_client_, from_, options_,
              [self = shared_from_this()](Result<ObjectInfo> source, const auto&) {
                self->on_source(std::move(source));
              });
}

void Copy::on_source(Result<ObjectInfo> source) {
  if (!source.ok()) return done_(std::move(source).error());
  source_ = std::move(*source);
  // S3 refuses to copy an object onto itself; it is its own copy already.
  if (from_ == to_ && source_client_.bucket() == client_.bucket()) return done_(source_);
  if (source_.size <= settings_.copy_bytes_max) return copy_whole();
  copy_parts();
}

S3Request Copy::copy_request() const {
  S3Request request;
  request.op = S3Op::kCopy;
  request.method = HttpMethod::kPut;
  request.key = to_;
  request.headers = {{"x-amz-copy-source", "/" + percent_encode(source_client_.bucket(), false) +
                                               "/" + percent_encode(from_, true)}};
  if (!source_.etag.empty()) {
    request.headers.emplace_back("x-amz-copy-source-if-match", source_.etag);
  }
  request.call = options_;
  // A failure after the answer began comes inside it.
  request.check = [&client = client_](const HttpResponse& response) -> Result<void> {
    if (const std::optional<S3ErrorText> text = parse_error(response.text)) {
      return s3_failure(*text, 500, client.place()).error;
    }
    PENSTOCK_TRY(parse_written(response.text));
    return {};
  };
  return request;
}

// Of a copy in parts, which is an upload: the server carries nothing over by itself.
PutOptions Copy::put_options() const {
  PutOptions options;
  static_cast<CallOptions&>(options) = options_;
  options.mtime_ns = source_.kept_mtime_ns;
  options.mode = source_.kept_mode;
  return options;
}

void Copy::copy_whole() {
  client_.send(copy_request(),
               [self = shared_from_this()](Result<HttpResponse> response, const S3History&) {
                 if (!response.ok()) return self->fail(std::move(response).error());
                 S3Written written = parse_written(response->text).value_or(S3Written{});
                 if (written.mtime_ns == 0) written.mtime_ns = answer_time_ns(*response);
                 const ObjectInfo& source = self->source_;
                 self->done_(ObjectInfo{self->to_, source.size, written.etag, written.mtime_ns,
                                        source.kept_mtime_ns, source.kept_mode});
               });
}

void Copy::copy_parts() {
  part_bytes_ = std::max(settings_.copy_part_bytes, (source_.size + kPartsMax - 1) / kPartsMax);
  begin_upload(client_, to_, put_options(), [self = shared_from_this()](Result<S3UploadId> upload) {
    if (!upload.ok()) return self->fail(std::move(upload).error());
    self->start_parts(std::move(*upload));
  });
}

void Copy::start_parts(S3UploadId upload) {
  upload_ = std::move(upload);
  const size_t parts = (source_.size + part_bytes_ - 1) / part_bytes_;
  const size_t at_once = std::min<size_t>(parts, client_.options().parts_in_flight);
  etags_.assign(parts, "");
  error_.reset();
  next_part_ = at_once;
  under_way_ = at_once;
  for (size_t i = 0; i < at_once; ++i) send_part(i);
}

void Copy::send_part(size_t index) {
  const uint64_t first = index * part_bytes_;
  const uint64_t last = std::min(first + part_bytes_, source_.size) - 1;
  S3Request request = copy_request();
  request.query = {{"partNumber", std::to_string(index + 1)}, {"uploadId", upload_.id}};
  request.headers.emplace_back("x-amz-copy-source-range", fmt::format("bytes={}-{}", first, last));
  client_.send(std::move(request), [self = shared_from_this(), index](
                                       const Result<HttpResponse>& response, const S3History&) {
    self->on_part(index, response);
  });
}

void Copy::on_part(size_t index, const Result<HttpResponse>& response) {
  std::optional<size_t> next;
  bool is_last = false;
  {
    std::lock_guard lock(mutex_);
    if (response.ok()) {
      etags_[index] = parse_written(response->text).value_or(S3Written{}).etag;
    } else if (!error_) {
      error_ = response.error();
    }
    if (!error_ && next_part_ < etags_.size()) {
      next = next_part_++;
    } else {
      is_last = --under_way_ == 0;
    }
  }
  if (next) return send_part(*next);
  if (is_last) complete();
}

void Copy::complete() {
  const auto on_failure = [self = shared_from_this()](const Error& error) {
    abort_upload(self->client_, self->upload_, {.deadline = deadline_in(std::chrono::seconds(30))},
                 [self, error](const Result<void>&) { self->fail(error); });
  };
  if (error_) return on_failure(*error_);
  complete_upload(client_, upload_, etags_, source_.size, put_options(),
                  [self = shared_from_this(), on_failure](Result<ObjectInfo> info) {
                    if (!info.ok()) return on_failure(info.error());
                    self->done_(std::move(info));
                  });
}

void Copy::fail(Error error) {
  if (error.code == ErrorCode::kChanged) {
    if (round_ < kCopyRounds) return start();
    error.retryable = true;
  }
  done_(std::move(error));
}

}  // namespace

void copy_object(S3Client& source_client, const std::string& from, S3Client& client,
                 const std::string& to, const S3StoreSettings& settings, const CallOptions& options,
                 Done<ObjectInfo> done) {
  std::make_shared<Copy>(source_client, from, client, to, settings, options, std::move(done))
      ->start();
}

}  // namespace penstock::store
