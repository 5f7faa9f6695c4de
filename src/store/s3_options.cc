#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "penstock/s3.h"
#include "store/s3_endpoint.h"

namespace penstock::store {

namespace {

Error refuse(std::string_view option, std::string_view expected) {
  return make_error(ErrorCode::kInvalid, fmt::format("S3 option {}: {}", option, expected));
}

// What goes into headers and URLs must not be able to end them.
bool is_header_text(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

Result<void> check_who(const S3Options& options) {
  if (options.access_key.empty() != options.secret_key.empty()) {
    return refuse("access_key", "give both the access key and the secret key, or neither");
  }
  if (!options.session_token.empty() && options.access_key.empty()) {
    return refuse("session_token", "a session token needs an access key");
  }
  if (!is_header_text(options.access_key)) return refuse("access_key", "has odd characters");
  if (!is_header_text(options.session_token)) return refuse("session_token", "has odd characters");
  return {};
}

Result<void> check_where(const S3Options& options) {
  if (options.region.empty() || !is_header_text(options.region) ||
      options.region.find_first_of("/:") != std::string::npos) {
    return refuse("region", "expected a name such as us-east-1");
  }
  if (!options.ca_file.empty() && access(options.ca_file.c_str(), R_OK) != 0) {
    Error error = errno_error(errno, "S3 option ca_file: open " + options.ca_file);
    error.code = ErrorCode::kInvalid;
    return error;
  }
  PENSTOCK_TRY(make_s3_target(options, "any"));  // Refuses an endpoint that is none.
  return {};
}

Result<void> check_times(const S3Options& options) {
  const auto positive = [](Nanoseconds time) { return time.count() > 0; };
  if (!positive(options.backoff_min)) return refuse("backoff_min", "expected more than 0");
  if (options.backoff_max < options.backoff_min) {
    return refuse("backoff_max", "expected at least backoff_min");
  }
  if (options.backoff_max > std::chrono::hours(1)) {
    return refuse("backoff_max", "expected at most an hour");
  }
  if (!positive(options.connect_timeout)) return refuse("connect_timeout", "expected more than 0");
  if (!positive(options.stall_timeout)) return refuse("stall_timeout", "expected more than 0");
  if (options.hedge_after.count() < 0) return refuse("hedge_after", "expected 0 or more");
  return {};
}

}  // namespace

Result<void> validate(const S3Options& options) {
  PENSTOCK_TRY(check_who(options));
  PENSTOCK_TRY(check_where(options));
  PENSTOCK_TRY(check_times(options));
  if (options.connections < 1 || options.connections > 1024) {
    return refuse("connections", "expected 1 to 1024");
  }
  if (options.attempts < 1 || options.attempts > 100) {
    return refuse("attempts", "expected 1 to 100");
  }
  if (options.part_bytes < 5 * kMiB || options.part_bytes > 5 * kGiB) {
    return refuse("part_bytes", "expected 5MiB to 5GiB");
  }
  if (options.parts_in_flight < 1 || options.parts_in_flight > 1024) {
    return refuse("parts_in_flight", "expected 1 to 1024");
  }
  return {};
}

}  // namespace penstock::store
