#include <fmt/core.h>

#include <mutex>

#include "store/s3_store.h"
#include "store/s3_xml.h"

namespace penstock::store {

namespace {

constexpr size_t kKeysPerRequest = 1000;
constexpr uint32_t kRounds = 4;  // Of asking again for keys that failed for the moment.

// One call of remove(); its requests may run on several threads.
class Removal : public std::enable_shared_from_this<Removal> {
 public:
  Removal(S3Client& client, std::string prefix, const CallOptions& options,
          Done<std::vector<RemoveFailure>> done)
      : client_(client), prefix_(std::move(prefix)), options_(options), done_(std::move(done)) {}

  void start(std::vector<std::string> keys);

 private:
  void remove_one(const std::string& full_key);
  void remove_batch(std::vector<std::string> full_keys, uint32_t round);
  void on_batch(const Result<HttpResponse>& response, uint32_t round);
  void fail(std::string_view full_key, Error error);
  void leave();

  S3Client& client_;
  const std::string prefix_;
  const CallOptions options_;
  const Done<std::vector<RemoveFailure>> done_;

  std::mutex mutex_;
  size_t under_way_ = 1;  // start() itself.
  std::vector<RemoveFailure> failures_;
  std::optional<Error> error_;
};

void Removal::start(std::vector<std::string> keys) {
  std::vector<std::string> in_batches;
  std::vector<std::string> alone;  // XML cannot carry them.
  for (std::string& key : keys) {
    if (Result<void> checked = check_key(key); !checked.ok()) {
      fail(prefix_ + key, checked.error());
      continue;
    }
    (is_xml_text(key) && is_xml_text(prefix_) ? in_batches : alone).push_back(prefix_ + key);
  }
  if (in_batches.size() == 1) alone.push_back(std::move(in_batches.front())), in_batches.clear();
  {
    std::lock_guard lock(mutex_);
    under_way_ += alone.size() + (in_batches.size() + kKeysPerRequest - 1) / kKeysPerRequest;
  }
  for (const std::string& key : alone) remove_one(key);
  for (size_t at = 0; at < in_batches.size(); at += kKeysPerRequest) {
    const auto begin = in_batches.begin() + static_cast<ptrdiff_t>(at);
    const size_t count = std::min(kKeysPerRequest, in_batches.size() - at);
    remove_batch(std::vector(begin, begin + static_cast<ptrdiff_t>(count)), 1);
  }
  client_.post([self = shared_from_this()] { self->leave(); });
}

void Removal::remove_one(const std::string& full_key) {
  S3Request request;
  request.op = S3Op::kRemove;
  request.method = HttpMethod::kDelete;
  request.key = full_key;
  request.call = options_;
  client_.send(std::move(request), [self = shared_from_this(), full_key](
                                       const Result<HttpResponse>& response, const S3History&) {
    // A missing bucket is an error; a missing key is what was wanted.
    const bool is_gone = !response.ok() && response.error().code == ErrorCode::kNotFound &&
                         response.error().detail.find("NoSuchBucket") == std::string::npos;
    if (!response.ok() && !is_gone) self->fail(full_key, response.error());
    self->leave();
  });
}

void Removal::remove_batch(std::vector<std::string> full_keys, uint32_t round) {
  S3Request request;
  request.op = S3Op::kRemove;
  request.method = HttpMethod::kPost;
  request.query = {{"delete", ""}};
  request.text = make_delete_request(full_keys);
  request.headers.emplace_back("content-md5",
                               to_base64(md5(std::as_bytes(std::span(request.text)))));
  request.call = options_;
  request.check = [](const HttpResponse& response) -> Result<void> {
    PENSTOCK_TRY(parse_delete_result(response.text));
    return {};
  };
  client_.send(std::move(request), [self = shared_from_this(), round](
                                       const Result<HttpResponse>& response, const S3History&) {
    self->on_batch(response, round);
  });
}

void Removal::on_batch(const Result<HttpResponse>& response, uint32_t round) {
  if (!response.ok()) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = response.error();
  } else {
    std::vector<std::string> again;
    const auto errors = parse_delete_result(response->text);
    for (const S3DeleteError& failed : *errors) {
      if (failed.error.code == "NoSuchKey") continue;
      const Error error = s3_failure(failed.error, response->status, client_.place()).error;
      if (error.retryable && round < kRounds) {
        again.push_back(failed.key);
      } else {
        fail(failed.key, error.with_context(client_.describe(HttpMethod::kDelete, failed.key)));
      }
    }
    if (!again.empty()) {
      return client_.post_after(client_.next_delay(round),
                                [self = shared_from_this(), again = std::move(again), round] {
                                  self->remove_batch(again, round + 1);
                                });
    }
  }
  leave();
}

void Removal::fail(std::string_view full_key, Error error) {
  full_key.remove_prefix(std::min(prefix_.size(), full_key.size()));
  std::lock_guard lock(mutex_);
  failures_.push_back({std::string(full_key), std::move(error)});
}

void Removal::leave() {
  {
    std::lock_guard lock(mutex_);
    if (--under_way_ > 0) return;
  }
  if (error_) return done_(std::move(*error_));
  done_(std::move(failures_));
}

}  // namespace

void remove_objects(S3Client& client, const std::string& prefix, std::vector<std::string> keys,
                    const CallOptions& options, Done<std::vector<RemoveFailure>> done) {
  std::make_shared<Removal>(client, prefix, options, std::move(done))->start(std::move(keys));
}

}  // namespace penstock::store
