#include "store/s3_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "base/log.h"
#include "base/thread_pool.h"
#include "store/s3_call.h"

namespace penstock::store {

namespace {

// One thread moves about 1 GB/s; a machine with many cores has links that carry more.
size_t loop_count(const S3Options& options) {
  constexpr size_t kCoresPerLoop = 4;
  constexpr size_t kMost = 4;
  const size_t wanted = std::clamp<size_t>(available_cores() / kCoresPerLoop, 1, kMost);
  return std::min<size_t>(wanted, options.connections);
}

void replace_all(std::string& text, const std::string& what, std::string_view with) {
  if (what.empty()) return;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), with);
    at += with.size();
  }
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

S3Client::S3Client(std::string bucket, const S3Options& options)
    : bucket_(std::move(bucket)),
      options_(options),
      signer_({options.access_key, options.secret_key, options.session_token}),
      backoff_(options.backoff_min, options.backoff_max, random_seed()) {}

Result<std::shared_ptr<S3Client>> S3Client::create(const std::string& bucket,
                                                   const S3Options& options) {
  PENSTOCK_TRY(validate(options));
  std::shared_ptr<S3Client> client(new S3Client(bucket, options));
  client->target_ = std::make_shared<const S3Target>(PENSTOCK_TRY(make_s3_target(options, bucket)));
  client->identity_ = client->target_->identity;
  const size_t loops = loop_count(options);
  for (size_t i = 0; i < loops; ++i) {
    HttpSettings settings;
    settings.thread_name = fmt::format("s3-{}", i);
    settings.connections = static_cast<uint32_t>((options.connections + loops - 1 - i) / loops);
    settings.connect_timeout = options.connect_timeout;
    settings.stall_timeout = options.stall_timeout;
    settings.verify_tls = options.verify_tls;
    settings.ca_file = options.ca_file;
    client->loops_.push_back(PENSTOCK_TRY(HttpLoop::create(settings)));
  }
  return client;
}

void S3Client::send(S3Request request, S3Done done) {
  HttpLoop& loop = *loops_[next_loop_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
  auto call = std::make_shared<S3Call>(*this, loop, std::move(request), std::move(done));
  loop.post([call] { call->start(); });
}

void S3Client::post(std::function<void()> function) {
  loops_.front()->post(std::move(function));
}

void S3Client::post_after(Nanoseconds delay, std::function<void()> function) {
  HttpLoop& loop = *loops_.front();
  loop.post([&loop, delay, function = std::move(function)] {
    loop.run_at(HttpLoop::Clock::now() + delay, function);
  });
}

std::string S3Client::hash_of(std::span<const std::byte> body) const {
  if (options_.access_key.empty() || target()->tls) return std::string(kUnsignedPayload);
  return to_hex(sha256(body));
}

std::shared_ptr<const S3Target> S3Client::target() const {
  std::lock_guard lock(mutex_);
  return target_;
}

bool S3Client::move_to_region(const std::string& region) {
  // It becomes part of a host's name, so the server's word is not enough.
  const bool is_name = region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                       });
  if (!is_name) return false;
  S3Options moved = options_;
  moved.region = region;
  Result<S3Target> target = make_s3_target(moved, bucket_);
  if (!target) return false;
  {
    std::lock_guard lock(mutex_);
    if (target_->region == region) return true;  // Another call was faster.
    target_ = std::make_shared<const S3Target>(std::move(*target));
  }
  log_warn("the bucket is in another region than configured; set AWS_REGION to save a round trip",
           {{"bucket", bucket_}, {"configured", options_.region}, {"region", redacted(region)}});
  return true;
}

S3Place S3Client::place(const S3Target& target) const {
  return {bucket_, target.host, target.region, !options_.access_key.empty()};
}

std::string S3Client::describe(HttpMethod method, const std::string& key) const {
  return fmt::format("{} s3://{}/{}", http_method_name(method), bucket_, key);
}

std::string S3Client::redacted(std::string text) const {
  replace_all(text, options_.secret_key, "***");
  replace_all(text, options_.session_token, "***");
  return text;
}

HttpRequest S3Client::sign(const S3Request& request, const S3Target& target, int64_t clock_lead_s) {
  const std::string path = target.encoded_path(request.key);
  const std::string query = canonical_query(request.query);
  const auto now = std::chrono::system_clock::now() + std::chrono::seconds(clock_lead_s);
  std::vector<NameValue> added = signer_.sign({.method = http_method_name(request.method),
                                               .host = target.host,
                                               .encoded_path = path,
                                               .canonical_query = query,
                                               .headers = request.headers,
                                               .payload_hash = request.body_hash,
                                               .region = target.region,
                                               .time = std::chrono::system_clock::to_time_t(now)});
  HttpRequest http;
  http.method = request.method;
  http.url = target.url(path, query);
  http.headers = request.headers;
  std::move(added.begin(), added.end(), std::back_inserter(http.headers));
  http.body = request.text.empty() ? request.body : std::as_bytes(std::span(request.text));
  http.into = request.into;
  return http;
}

}  // namespace penstock::store
