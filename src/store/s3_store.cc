#include "store/s3_store.h"
#include "base/log.h"

#include <fmt/core.h>

#include "store/s3_checksum.h"
#include "store/s3_object.h"

namespace penstock::store {

namespace {

// What the answer to a ranged GET says, with everything it declares about itself checked.
Result<GetResult> read_answer(const std::string& key, uint64_t offset, size_t wanted,
                              const std::string& if_match, const HttpResponse& response) {
  GetResult result;
  result.bytes = response.bytes;
  result.info = PENSTOCK_TRY(object_info(key, response));
  if (!if_match.empty() && result.info.etag != if_match) {
    return make_error(ErrorCode::kChanged, fmt::format("the object changed: its etag is {}, not {}",
                                                       result.info.etag, if_match));
  }
  uint64_t first = 0;
  uint64_t count = result.info.size;
  if (response.status == 206) {
    const ContentRange range = PENSTOCK_TRY(parse_content_range(response.header("content-range")));
    first = range.first;
    count = range.last - range.first + 1;
  }
  const uint64_t available = result.info.size > offset ? result.info.size - offset : 0;
  if (first != offset || count != response.bytes ||
      count != std::min<uint64_t>(wanted, available)) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("asked for {} bytes at {}, the server sent {} and calls them {} "
                                  "at {}",
                                  wanted, offset, response.bytes, count, first),
                      true);
  }
  return result;
}

struct Read {
  std::string shown_key;
  uint64_t offset;
  std::span<std::byte> into;
  GetOptions options;
  bool verify_content;
  bool send_if_match;
  uint32_t rounds_left = 3;  // Of asking again because the object changed while we looked.

  Result<void> check(const HttpResponse& response) const {
    if (response.status == 416) return {};
    const GetResult result =
        PENSTOCK_TRY(read_answer(shown_key, offset, into.size(), options.if_match, response));
    if (offset != 0 || result.bytes != result.info.size) return {};
    const std::span<const std::byte> bytes = into.first(result.bytes);
    PENSTOCK_TRY(check_declared_checksum(response, bytes));
    if (verify_content) PENSTOCK_TRY(check_etag_md5(response, result.info.etag, bytes));
    return {};
  }
};

void head_for_read(S3Client& client, const std::string& full_key, std::shared_ptr<Read> read,
                   Done<GetResult> done);

void send_read(S3Client& client, const std::string& full_key, const std::shared_ptr<Read>& read,
               Done<GetResult> done) {
  S3Request request;
  request.op = S3Op::kGet;
  request.key = full_key;
  request.into = read->into;
  request.headers.emplace_back(
      "range", fmt::format("bytes={}-{}", read->offset, read->offset + read->into.size() - 1));
  // Without quotes: Ceph knows no others, and the rest take both. It only saves sending the wrong
  // bytes; what decides is the etag of the answer.
  const bool is_conditional = read->send_if_match && !read->options.if_match.empty();
  if (is_conditional) {
    request.headers.emplace_back("if-match", read->options.if_match);
  }
  if (read->options.bypass_cache) request.headers.emplace_back("cache-control", "no-cache");
  if (read->offset == 0) request.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  request.also_accept = 416;
  request.may_hedge = true;
  request.call = read->options;
  request.check = [read](const HttpResponse& response) { return read->check(response); };
  client.send(std::move(request), [&client, full_key, read, is_conditional, done = std::move(done)](
                                      Result<HttpResponse> answer, const S3History&) {
    const bool was_refused =
        !answer.ok() && is_conditional && answer.error().code == ErrorCode::kChanged;
    if (!answer.ok() && !was_refused) return done(std::move(answer).error());
    if (was_refused || answer->status == 416) return head_for_read(client, full_key, read, done);
    S3Metrics::get().bytes_read->add(answer->bytes);
    done(read_answer(read->shown_key, read->offset, read->into.size(), read->options.if_match,
                     *answer));
  });
}

// For reads that brought no bytes: those that ask for none; those past the end, whose refusal (416)
// need not tell the object's version; and those whose condition failed, which is believed only when
// the object's etag confirms it.
void head_for_read(S3Client& client, const std::string& full_key, std::shared_ptr<Read> read,
                   Done<GetResult> done) {
  head_object(
      client, full_key, read->options,
      [&client, full_key, read, done = std::move(done)](Result<ObjectInfo> info, const auto&) {
        if (!info.ok()) return done(std::move(info).error());
        info->key = read->shown_key;
        const std::string& if_match = read->options.if_match;
        if (!if_match.empty() && info->etag != if_match) {
          return done(make_error(
              ErrorCode::kChanged,
              fmt::format("{}: the object changed: its etag is {}, not {}",
                          client.describe(HttpMethod::kHead, full_key), info->etag, if_match)));
        }
        if (read->into.empty() || read->offset >= info->size) return done(GetResult{0, *info});
        // It grew between the two requests, or the server does not understand our condition.
        if (!if_match.empty() && read->send_if_match) {
          read->send_if_match = false;
          client.give_up_if_match();
        }
        if (read->rounds_left-- > 0) return send_read(client, full_key, read, done);
        done(make_error(ErrorCode::kChanged,
                        fmt::format("{}: the object keeps changing",
                                    client.describe(HttpMethod::kGet, full_key)),
                        true));
      });
}

}  // namespace

S3Store::S3Store(std::shared_ptr<S3Client> client, std::string prefix,
                 const S3StoreSettings& settings)
    : client_(std::move(client)), prefix_(std::move(prefix)), settings_(settings) {}

S3Store::~S3Store() {
  gate_.close();
}

template <typename T>
void S3Store::refuse(Done<T> done, Error error) {
  client_->post([done = std::move(done), error = std::move(error)] { done(error); });
}

template <typename T>
Done<T> S3Store::enter(Done<T> done) {
  auto pass = std::make_shared<Gate::Pass>(gate_.enter());
  if (!*pass) {
    refuse(std::move(done),
           make_error(ErrorCode::kClosed, fmt::format("{} is closing", description())));
    return {};
  }
  return [pass, done = std::move(done)](Result<T> result) { done(std::move(result)); };
}

// The server's limit is on the whole key.
Result<void> S3Store::check_full_key(const std::string& key) const {
  PENSTOCK_TRY(check_key(key));
  if (!is_utf8(key)) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' cannot be an object's key in {}: it is not UTF-8",
                                  json_escape(key), description()));
  }
  if (prefix_.size() + key.size() <= 1024) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' cannot be an object's key in {}: with the prefix it is "
                                "longer than 1024 bytes",
                                key, description()));
}

Result<void> S3Store::check_writable() const {
  if (!settings_.read_only) return {};
  return make_error(ErrorCode::kPermission, fmt::format("{} was opened read-only", description()));
}

Done<ObjectInfo> S3Store::with_key(std::string key, Done<ObjectInfo> done) {
  return [key = std::move(key), done = std::move(done)](Result<ObjectInfo> info) {
    if (info.ok()) info->key = key;
    done(std::move(info));
  };
}

void S3Store::async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                        GetOptions options, Done<GetResult> done) {
  if (!(done = enter(std::move(done)))) return;
  if (Result<void> checked = check_full_key(key); !checked.ok()) {
    return refuse(std::move(done), checked.error());
  }
  const std::string full_key = prefix_ + key;
  auto read =
      std::make_shared<Read>(Read{std::move(key), offset, into, std::move(options),
                                  client_->options().verify_content, client_->knows_if_match()});
  // The last byte of a range is named too, and must be a number.
  const bool past_all = offset > UINT64_MAX - into.size();
  if (into.empty() || past_all) return head_for_read(*client_, full_key, read, std::move(done));
  send_read(*client_, full_key, read, std::move(done));
}

void S3Store::async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                        Done<ObjectInfo> done) {
  if (!(done = enter(std::move(done)))) return;
  Result<void> checked = check_writable();
  if (checked.ok()) checked = check_full_key(key);
  if (checked.ok() && bytes.size() > kS3PutBytesMax) {
    checked = make_error(ErrorCode::kInvalid,
                         fmt::format("{}: {} is more than one PUT can carry (5 GiB): use an upload",
                                     key, format_size(bytes.size())));
  }
  if (!checked.ok()) return refuse(std::move(done), checked.error());
  const std::string full_key = prefix_ + key;
  put_object(*client_, full_key, bytes, options, with_key(std::move(key), std::move(done)));
}

void S3Store::async_head(std::string key, CallOptions options, Done<ObjectInfo> done) {
  if (!(done = enter(std::move(done)))) return;
  if (Result<void> checked = check_full_key(key); !checked.ok()) {
    return refuse(std::move(done), checked.error());
  }
  const std::string full_key = prefix_ + key;
  head_object(*client_, full_key, options,
              [done = with_key(std::move(key), std::move(done))](
                  Result<ObjectInfo> info, const auto&) { done(std::move(info)); });
}

void S3Store::async_list(ListOptions options, Done<ListPage> done) {
  if (!(done = enter(std::move(done)))) return;
  if (options.limit < 1 || options.limit > 1000) {
    return refuse(std::move(done),
                  make_error(ErrorCode::kInvalid, fmt::format("a page of a listing has 1 to 1000 "
                                                              "entries, not {}",
                                                              options.limit)));
  }
  list_objects(*client_, prefix_, std::move(options), std::move(done));
}

void S3Store::async_remove(std::vector<std::string> keys, CallOptions options,
                           Done<std::vector<RemoveFailure>> done) {
  if (!(done = enter(std::move(done)))) return;
  if (Result<void> checked = check_writable(); !checked.ok()) {
    return refuse(std::move(done), checked.error());
  }
  remove_objects(*client_, prefix_, std::move(keys), options, std::move(done));
}

void S3Store::async_copy(std::string from, std::string to, CallOptions options,
                         Done<ObjectInfo> done) {
  async_copy_from(*this, std::move(from), std::move(to), std::move(options), std::move(done));
}

void S3Store::async_copy_from(S3Store& source, std::string from, std::string to,
                              CallOptions options, Done<ObjectInfo> done) {
  if (!(done = enter(std::move(done)))) return;
  if (&source != this && !(done = source.enter(std::move(done)))) return;
  Result<void> checked = check_writable();
  if (checked.ok()) checked = source.check_full_key(from);
  if (checked.ok()) checked = check_full_key(to);
  if (!checked.ok()) return refuse(std::move(done), checked.error());
  const std::string full_to = prefix_ + to;
  copy_object(*source.client_, source.prefix_ + from, *client_, full_to, settings_, options,
              with_key(std::move(to), std::move(done)));
}

std::optional<S3Pair> copies_within_s3(ObjectStore& from, ObjectStore& to) {
  auto* const source = dynamic_cast<S3Store*>(&from);
  auto* const target = dynamic_cast<S3Store*>(&to);
  if (source == nullptr || target == nullptr) return std::nullopt;
  const S3Options& a = source->client().options();
  const S3Options& b = target->client().options();
  const bool is_one = a.endpoint == b.endpoint && a.access_key == b.access_key &&
                      a.secret_key == b.secret_key && a.session_token == b.session_token;
  if (!is_one) return std::nullopt;
  return S3Pair{source, target};
}

void S3Store::async_flush(CallOptions options, Done<void> done) {
  if (!(done = enter(std::move(done)))) return;
  if (options.cancel.stop_requested()) {
    return refuse(std::move(done),
                  make_error(ErrorCode::kCancelled, "flush: stopped by the caller"));
  }
  if (options.deadline <= HttpLoop::Clock::now()) {
    return refuse(std::move(done),
                  make_error(ErrorCode::kTimeout, "flush: the deadline passed", true));
  }
  // S3 answers a write when it is durable.
  client_->post([done = std::move(done)] { done({}); });
}

Result<std::unique_ptr<Upload>> S3Store::start_upload(std::string key, PutOptions options) {
  PENSTOCK_TRY(check_writable());
  PENSTOCK_TRY(check_full_key(key));
  const std::string full_key = prefix_ + key;
  return make_s3_upload(client_, full_key, std::move(key), options);
}

Capabilities S3Store::capabilities() const {
  Capabilities capabilities;
  capabilities.writable = !settings_.read_only;
  capabilities.any_bytes = false;
  // The limit is for what S3 calls the key: the prefix is a part of it.
  capabilities.key_bytes_max -=
      std::min<uint32_t>(capabilities.key_bytes_max, static_cast<uint32_t>(prefix_.size()));
  return capabilities;
}

std::string S3Store::description() const {
  std::string text = "s3://" + client_->bucket();
  if (!prefix_.empty()) text += "/" + prefix_.substr(0, prefix_.size() - 1);
  return text;
}

Result<std::unique_ptr<S3Store>> make_s3_store(const std::string& bucket, const std::string& prefix,
                                               const S3Options& options,
                                               const S3StoreSettings& settings) {
  std::string folder = prefix;
  if (folder.ends_with('/')) folder.pop_back();
  if (!folder.empty()) {
    if (Result<void> checked = check_key(folder); !checked.ok()) {
      return checked.error().with_context("the prefix of an S3 store");
    }
    folder += '/';
  }
  std::shared_ptr<S3Client> client = PENSTOCK_TRY(S3Client::create(bucket, options));
  return std::make_unique<S3Store>(std::move(client), std::move(folder), settings);
}

Result<std::unique_ptr<ObjectStore>> open_s3_store(const std::string& bucket,
                                                   const std::string& prefix,
                                                   const S3Options& options) {
  return std::unique_ptr<ObjectStore>(PENSTOCK_TRY(make_s3_store(bucket, prefix, options, {})));
}

Result<std::string> presign_get(const std::string& bucket, const std::string& key,
                                const S3Options& options, Nanoseconds valid) {
  PENSTOCK_TRY(validate(options));
  PENSTOCK_TRY(check_key(key));
  if (options.access_key.empty()) {
    return make_error(ErrorCode::kInvalid, "a presigned address needs credentials to sign it with");
  }
  if (valid < std::chrono::seconds(1) || valid > std::chrono::hours(7 * 24)) {
    return make_error(ErrorCode::kInvalid, "a presigned address is valid for 1s to 7d");
  }
  const S3Target target = PENSTOCK_TRY(make_s3_target(options, bucket));
  const std::string path = target.encoded_path(key);
  Signer signer({options.access_key, options.secret_key, options.session_token});
  const SigningInput input{
      .method = "GET",
      .host = target.host,
      .encoded_path = path,
      .canonical_query = {},
      .headers = {},
      .payload_hash = kUnsignedPayload,
      .region = target.region,
      .time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())};
  return target.url(path, signer.presign(input, valid));
}

}  // namespace penstock::store
