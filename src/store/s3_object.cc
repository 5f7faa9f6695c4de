#include "store/s3_object.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <charconv>
#include <memory>
#include <random>

#include "store/s3_metadata.h"
#include "store/s3_xml.h"

namespace penstock::store {

namespace {

constexpr const char* kWriterHeader = "x-amz-meta-penstock-writer";

bool parse_number(std::string_view text, uint64_t& value) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

int64_t http_time_ns(std::string_view text) {
  if (text.empty()) return 0;
  const time_t seconds = curl_getdate(std::string(text).c_str(), nullptr);
  return seconds < 0 ? 0 : static_cast<int64_t>(seconds) * 1'000'000'000;
}

std::string random_name() {
  thread_local std::mt19937_64 random(std::random_device{}() ^
                                      static_cast<uint64_t>(std::random_device{}()) << 32);
  return fmt::format("{:016x}{:016x}", random(), random());
}

Error exists_error(const S3Client& client, HttpMethod method, const std::string& key) {
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: it exists already", client.describe(method, key)));
}

// The etag that S3 gives an object of such parts; empty where theirs are not MD5s.
std::string multipart_etag(const std::vector<std::string>& etags) {
  std::string all;
  for (const std::string& etag : etags) {
    if (etag.size() != 32) return "";
    for (size_t i = 0; i < etag.size(); i += 2) {
      uint8_t byte = 0;
      const char* end = etag.data() + i + 2;
      if (std::from_chars(etag.data() + i, end, byte, 16).ptr != end) return "";
      all += static_cast<char>(byte);
    }
  }
  return fmt::format("{}-{}", to_hex(md5(std::as_bytes(std::span(all)))), etags.size());
}

// Of an object that was just written.
ObjectInfo written_info(const std::string& key, uint64_t size, std::string etag,
                        const HttpResponse& answer, const PutOptions& options) {
  ObjectInfo info{key, size, std::move(etag), answer_time_ns(answer), options.mtime_ns};
  if (options.mode) info.kept_mode = *options.mode & kKeptModeBits;
  return info;
}

struct Completion {
  S3Client& client;
  S3UploadId upload;
  std::vector<std::string> etags;
  uint64_t size;
  PutOptions options;
  Done<ObjectInfo> done;

  bool is_ours(const ObjectInfo& found) const {
    const std::string expected = multipart_etag(etags);
    return found.size == size && (expected.empty() || expected == found.etag);
  }
};

// Servers report late failures inside an answer that began with 200.
Result<void> check_written(const S3Client& client, const HttpResponse& response) {
  if (const std::optional<S3ErrorText> text = parse_error(response.text)) {
    return s3_failure(*text, 500, client.place()).error;
  }
  PENSTOCK_TRY(parse_written(response.text));
  return {};
}

void send_completion(std::shared_ptr<Completion> state);

void on_completed(const std::shared_ptr<Completion>& state, Result<HttpResponse> answer,
                  const S3History& history) {
  S3Client& client = state->client;
  const std::string& key = state->upload.key;
  if (answer.ok()) {
    const std::string etag = parse_written(answer->text).value_or(S3Written{}).etag;
    if (!etag.empty()) {
      return state->done(written_info(key, state->size, etag, *answer, state->options));
    }
    // Ceph tells no etag.
    return head_object(client, key, state->options, [state](Result<ObjectInfo> info, const auto&) {
      state->done(std::move(info));
    });
  }
  Error error = std::move(answer).error();
  const bool was_there = state->options.if_absent && error.code == ErrorCode::kChanged;
  if (was_there) error = exists_error(client, HttpMethod::kPost, key);
  const bool may_be_ours =
      history.maybe_repeated && (was_there || error.code == ErrorCode::kNotFound);
  if (!may_be_ours) return state->done(std::move(error));
  // An earlier attempt, whose answer got lost, may have completed it.
  head_object(client, key, state->options,
              [state, error](const Result<ObjectInfo>& info, const auto&) {
                if (info.ok() && state->is_ours(*info)) return state->done(info);
                state->done(error);
              });
}

void send_completion(std::shared_ptr<Completion> state) {
  S3Request request;
  request.op = S3Op::kUpload;
  request.method = HttpMethod::kPost;
  request.key = state->upload.key;
  request.query = {{"uploadId", state->upload.id}};
  request.text = make_complete_request(state->etags);
  if (state->options.if_absent) request.headers.emplace_back("if-none-match", "*");
  request.check = [&client = state->client](const HttpResponse& response) {
    return check_written(client, response);
  };
  request.call = state->options;
  S3Client& client = state->client;
  client.send(std::move(request),
              [state = std::move(state)](Result<HttpResponse> answer, const S3History& history) {
                on_completed(state, std::move(answer), history);
              });
}

}  // namespace

Result<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range;
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (text.starts_with("bytes ") && dash != std::string_view::npos &&
      slash != std::string_view::npos && dash < slash &&
      parse_number(text.substr(6, dash - 6), range.first) &&
      parse_number(text.substr(dash + 1, slash - dash - 1), range.last) &&
      parse_number(text.substr(slash + 1), range.size) && range.first <= range.last &&
      range.last < range.size) {
    return range;
  }
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("the server's Content-Range '{}' makes no sense", text), true);
}

Result<ObjectInfo> object_info(const std::string& key, const HttpResponse& response) {
  ObjectInfo info;
  info.key = key;
  info.etag = without_quotes(response.header("etag"));
  info.mtime_ns = http_time_ns(response.header("last-modified"));
  if (response.status == 206) {
    info.size = PENSTOCK_TRY(parse_content_range(response.header("content-range"))).size;
  } else if (!parse_number(response.header("content-length"), info.size)) {
    return make_error(ErrorCode::kCorrupt, "the server did not tell the object's size", true);
  }
  read_kept(response, info);
  return info;
}

int64_t answer_time_ns(const HttpResponse& response) {
  return http_time_ns(response.header("date"));
}

void head_object(S3Client& client, const std::string& key, const CallOptions& options,
                 std::function<void(Result<ObjectInfo>, const HttpResponse&)> done) {
  S3Request request;
  request.op = S3Op::kHead;
  request.method = HttpMethod::kHead;
  request.key = key;
  request.call = options;
  request.check = [](const HttpResponse& response) -> Result<void> {
    PENSTOCK_TRY(object_info("", response));
    return {};
  };
  client.send(std::move(request),
              [key, done = std::move(done)](Result<HttpResponse> answer, const S3History&) {
                if (!answer.ok()) return done(std::move(answer).error(), HttpResponse{});
                done(object_info(key, *answer), *answer);
              });
}

void put_object(S3Client& client, const std::string& key, std::span<const std::byte> bytes,
                const PutOptions& options, Done<ObjectInfo> done) {
  S3Request request;
  request.op = S3Op::kPut;
  request.method = HttpMethod::kPut;
  request.key = key;
  request.body = bytes;
  request.body_hash = client.hash_of(bytes);
  request.headers = kept_headers(options);
  request.call = options;
  std::string writer;
  if (options.if_absent) {
    writer = random_name();
    request.headers.emplace_back("if-none-match", "*");
    request.headers.emplace_back(kWriterHeader, writer);
  }
  const size_t size = bytes.size();
  client.send(std::move(request), [&client, key, size, writer, options, done = std::move(done)](
                                      Result<HttpResponse> answer, const S3History& history) {
    if (answer.ok()) {
      S3Metrics::get().bytes_written->add(size);
      return done(
          written_info(key, size, without_quotes(answer->header("etag")), *answer, options));
    }
    if (writer.empty() || answer.error().code != ErrorCode::kChanged) {
      return done(std::move(answer).error());
    }
    const Error exists = exists_error(client, HttpMethod::kPut, key);
    if (!history.maybe_repeated) return done(exists);
    head_object(client, key, options,
                [exists, writer, done](Result<ObjectInfo> info, const HttpResponse& headers) {
                  if (info.ok() && headers.header(kWriterHeader) == writer) {
                    return done(std::move(info));
                  }
                  done(exists);
                });
  });
}

void begin_upload(S3Client& client, const std::string& key, const PutOptions& options,
                  Done<S3UploadId> done) {
  S3Request request;
  request.op = S3Op::kUpload;
  request.method = HttpMethod::kPost;
  request.key = key;
  request.query = {{"uploads", ""}};
  request.headers = kept_headers(options);
  request.call = options;
  request.check = [](const HttpResponse& response) -> Result<void> {
    PENSTOCK_TRY(parse_upload_id(response.text));
    return {};
  };
  client.send(std::move(request),
              [key, done = std::move(done)](Result<HttpResponse> answer, const S3History&) {
                if (!answer.ok()) return done(std::move(answer).error());
                Result<std::string> id = parse_upload_id(answer->text);
                if (!id.ok()) return done(std::move(id).error());
                done(S3UploadId{key, std::move(*id)});
              });
}

void complete_upload(S3Client& client, const S3UploadId& upload, std::vector<std::string> etags,
                     uint64_t size, const PutOptions& options, Done<ObjectInfo> done) {
  auto state = std::make_shared<Completion>(
      Completion{client, upload, std::move(etags), size, options, std::move(done)});
  if (!options.if_absent) return send_completion(std::move(state));
  head_object(client, upload.key, options, [state](const Result<ObjectInfo>& info, const auto&) {
    if (info.ok()) {
      return state->done(exists_error(state->client, HttpMethod::kPost, state->upload.key));
    }
    if (info.error().code != ErrorCode::kNotFound) return state->done(info.error());
    send_completion(state);
  });
}

void abort_upload(S3Client& client, const S3UploadId& upload, const CallOptions& options,
                  Done<void> done) {
  S3Request request;
  request.op = S3Op::kUpload;
  request.method = HttpMethod::kDelete;
  request.key = upload.key;
  request.query = {{"uploadId", upload.id}};
  request.also_accept = 404;
  request.call = options;
  client.send(std::move(request),
              [done = std::move(done)](Result<HttpResponse> answer, const S3History&) {
                if (!answer.ok()) return done(std::move(answer).error());
                done({});
              });
}

}  // namespace penstock::store
