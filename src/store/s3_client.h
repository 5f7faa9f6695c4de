// Sends S3 requests until they are answered: signs, retries, holds back, hedges, follows the region
// and the server's clock, and turns refusals into errors that say what to do.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "penstock/s3.h"
#include "store/aws_sigv4.h"
#include "store/http_client.h"
#include "store/s3_backoff.h"
#include "store/s3_endpoint.h"
#include "store/s3_error.h"
#include "store/s3_metrics.h"

namespace penstock::store {

struct S3Request {
  S3Op op = S3Op::kGet;
  HttpMethod method = HttpMethod::kGet;
  std::string key;  // In the bucket. Empty: the bucket itself.
  std::vector<NameValue> query;
  std::vector<NameValue> headers;   // Names in lower case.
  std::string text;                 // The body, or
  std::span<const std::byte> body;  // the body, when `text` is empty. Valid until `done`.
  std::string body_hash;            // From S3Client::hash_of(body); empty: made when first sent.
  std::span<std::byte> into;        // As in HttpRequest.
  int also_accept = 0;              // A status besides 2xx that counts as an answer.
  // Looks at an answer before it counts. A retryable error means another attempt.
  std::function<Result<void>(const HttpResponse&)> check;
  bool may_hedge = false;
  CallOptions call;
};

// How an answer came about.
struct S3History {
  // An earlier attempt may have reached the server and been carried out: its effect may be what the
  // last attempt ran into.
  bool maybe_repeated = false;
};

// Called exactly once, on a thread of the client, never from inside send().
using S3Done = std::function<void(Result<HttpResponse>, const S3History&)>;

// Threads: all calls from any thread.
// Lifetime: outlives its requests; the owner waits for those.
class S3Client {
 public:
  static Result<std::shared_ptr<S3Client>> create(const std::string& bucket,
                                                  const S3Options& options);

  void send(S3Request request, S3Done done);
  // Runs `function` on one of the client's threads.
  void post(std::function<void()> function);
  void post_after(Nanoseconds delay, std::function<void()> function);
  // How long to wait after so many failures.
  Nanoseconds next_delay(uint32_t failures) { return backoff_.delay(failures); }

  // What goes into S3Request::body_hash: SHA-256 where nothing else protects the body, which is
  // without TLS.
  std::string hash_of(std::span<const std::byte> body) const;

  const S3Options& options() const { return options_; }
  const std::string& bucket() const { return bucket_; }
  // S3Target::identity as configured, wherever the bucket turns out to be.
  const std::string& identity() const { return identity_; }
  S3Place place() const { return place(*target()); }
  // "GET s3://bucket/key"
  std::string describe(HttpMethod method, const std::string& key) const;
  // `text` without any secret that a server may have sent back.
  std::string redacted(std::string text) const;

  // Whether the server understands If-Match as we write it; found out by the first that it does
  // not.
  bool knows_if_match() const { return knows_if_match_; }
  void give_up_if_match() { knows_if_match_ = false; }

  // For tests: what the client believes the server's clock is ahead.
  void set_clock_lead_s(int64_t seconds) { clock_lead_s_ = seconds; }

 private:
  friend class S3Call;

  S3Client(std::string bucket, const S3Options& options);
  std::shared_ptr<const S3Target> target() const;
  S3Place place(const S3Target& target) const;
  // False when the region is already that one, or leads nowhere.
  bool move_to_region(const std::string& region);
  // `clock_lead_s` is how far the server's clock is ahead.
  HttpRequest sign(const S3Request& request, const S3Target& target, int64_t clock_lead_s);

  const std::string bucket_;
  std::string identity_;
  const S3Options options_;
  const S3Metrics& metrics_ = S3Metrics::get();
  Signer signer_;
  S3Backoff backoff_;
  std::atomic<int64_t> clock_lead_s_{0};
  // When a retry was last said aloud.
  std::atomic<std::chrono::steady_clock::time_point> complained_at_{};
  std::atomic<bool> knows_if_match_{true};
  mutable std::mutex mutex_;
  std::shared_ptr<const S3Target> target_;
  std::atomic<uint32_t> next_loop_{0};
  std::vector<std::unique_ptr<HttpLoop>> loops_;  // Last: their threads use all the above.
};

}  // namespace penstock::store
