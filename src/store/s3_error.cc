#include "store/s3_error.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <cstdlib>

namespace penstock::store {

namespace {

struct S3Rule {
  std::string_view code;
  ErrorCode error;
  bool retryable;
  std::string_view meaning;  // {0} bucket, {1} endpoint, {2} region.
};

constexpr S3Rule kS3Rules[] = {
    {"AccessDenied", ErrorCode::kPermission, false,
     "access denied: these credentials may not do this in bucket '{0}' (check its policy and the "
     "permissions of the key)"},
    {"AllAccessDisabled", ErrorCode::kPermission, false,
     "access denied: all access to bucket '{0}' is disabled"},
    {"AccountProblem", ErrorCode::kPermission, false, "the server refuses this account"},
    {"InvalidAccessKeyId", ErrorCode::kPermission, false,
     "the server at {1} does not know this access key (check $AWS_ACCESS_KEY_ID or the profile, "
     "and that the endpoint is the right one)"},
    {"SignatureDoesNotMatch", ErrorCode::kPermission, false,
     "the signature does not match: the secret key is wrong, or a proxy changed the request"},
    {"InvalidToken", ErrorCode::kPermission, false,
     "the session token is not valid for this access key: get new credentials"},
    {"ExpiredToken", ErrorCode::kPermission, false,
     "the session token has expired: get new credentials"},
    {"TokenRefreshRequired", ErrorCode::kPermission, false,
     "the session token has expired: get new credentials"},
    {"RequestTimeTooSkewed", ErrorCode::kPermission, false,
     "the clocks of this machine and of the server differ too much"},
    {"RequestExpired", ErrorCode::kPermission, false,
     "the clocks of this machine and of the server differ too much"},
    {"NoSuchBucket", ErrorCode::kNotFound, false,
     "there is no bucket '{0}' at {1} (create it, or check the name and the endpoint)"},
    {"NoSuchKey", ErrorCode::kNotFound, false, "no such object"},
    {"NoSuchUpload", ErrorCode::kNotFound, false,
     "the upload is gone: it was finished or aborted by someone else"},
    {"PreconditionFailed", ErrorCode::kChanged, false, "the object is not the version asked for"},
    {"ConditionalRequestConflict", ErrorCode::kBusy, true,
     "another conditional write to this object was under way"},
    {"OperationAborted", ErrorCode::kBusy, true, "another operation on it was under way"},
    {"PermanentRedirect", ErrorCode::kInvalid, false, "bucket '{0}' is in another region than {2}"},
    {"AuthorizationHeaderMalformed", ErrorCode::kInvalid, false,
     "the request was signed for region {2}, which is not the server's (set $AWS_REGION)"},
    {"IllegalLocationConstraintException", ErrorCode::kInvalid, false,
     "bucket '{0}' is in another region than {2}"},
    {"QuotaExceeded", ErrorCode::kNoSpace, false, "the quota of the bucket or the user is used up"},
    {"EntityTooLarge", ErrorCode::kInvalid, false, "the object is larger than the server takes"},
    {"EntityTooSmall", ErrorCode::kInvalid, false, "a part is smaller than the server takes"},
    {"KeyTooLongError", ErrorCode::kInvalid, false, "the key is longer than the server takes"},
    {"MethodNotAllowed", ErrorCode::kUnsupported, false, "the server does not allow this"},
    {"NotImplemented", ErrorCode::kUnsupported, false, "the server cannot do this"},
    {"InvalidObjectState", ErrorCode::kUnsupported, false,
     "the object is archived: restore it first"},
    {"BadDigest", ErrorCode::kCorrupt, true, "the body changed on its way to the server"},
    {"XAmzContentSHA256Mismatch", ErrorCode::kCorrupt, true,
     "the body changed on its way to the server"},
    {"SlowDown", ErrorCode::kUnavailable, true, "the server asks to slow down"},
    {"RequestLimitExceeded", ErrorCode::kUnavailable, true, "the server asks to slow down"},
    {"Throttling", ErrorCode::kUnavailable, true, "the server asks to slow down"},
    {"TooManyRequests", ErrorCode::kUnavailable, true, "the server asks to slow down"},
    {"ServiceUnavailable", ErrorCode::kUnavailable, true, "the server is overloaded or starting"},
    {"InternalError", ErrorCode::kUnavailable, true, "the server failed"},
    {"RequestTimeout", ErrorCode::kUnavailable, true, "the server waited too long for the body"},
};

const S3Rule* rule_for(std::string_view code) {
  for (const S3Rule& rule : kS3Rules) {
    if (rule.code == code) return &rule;
  }
  return nullptr;
}

// When the server sent no code that we know.
Error error_by_status(int status) {
  switch (status) {
    case 401:
    case 403:
      return make_error(ErrorCode::kPermission, "access denied");
    case 404:
      return make_error(ErrorCode::kNotFound, "no such object, or no such bucket");
    case 408:
    case 425:
      return make_error(ErrorCode::kUnavailable, "the server waited too long", true);
    case 409:
      return make_error(ErrorCode::kBusy, "another operation on it was under way", true);
    case 412:
      return make_error(ErrorCode::kChanged, "the object is not the version asked for");
    case 429:
      return make_error(ErrorCode::kUnavailable, "the server asks to slow down", true);
    case 501:
      return make_error(ErrorCode::kUnsupported, "the server cannot do this");
    case 507:
      return make_error(ErrorCode::kNoSpace, "the server has no room");
    default:
      break;
  }
  if (status >= 500) return make_error(ErrorCode::kUnavailable, "the server failed", true);
  if (status >= 300 && status < 400) {
    return make_error(ErrorCode::kInvalid,
                      "the server sends the request elsewhere: the endpoint or region is wrong");
  }
  return make_error(ErrorCode::kInvalid, "the server refuses the request");
}

bool means_slow_down(std::string_view code, int status) {
  return status == 429 || code == "SlowDown" || code == "RequestLimitExceeded" ||
         code == "Throttling" || code == "TooManyRequests";
}

}  // namespace

S3Failure s3_failure(const S3ErrorText& text, int status, const S3Place& place) {
  S3Failure failure;
  failure.code = text.code;
  const S3Rule* rule = rule_for(text.code);
  if (rule != nullptr) {
    failure.error = make_error(
        rule->error,
        fmt::format(fmt::runtime(rule->meaning), place.bucket, place.endpoint, place.region),
        rule->retryable);
  } else {
    failure.error = error_by_status(status);
    if (!text.message.empty()) failure.error.detail += ": " + text.message;
  }
  if (failure.error.code == ErrorCode::kPermission && !place.is_signed) {
    failure.error.detail += "; the request was not signed, because no credentials were given";
  }
  if (text.code.empty()) {
    failure.error.detail += fmt::format(" (HTTP {})", status);
  } else {
    failure.error.detail += fmt::format(" (HTTP {} {})", status, text.code);
  }
  failure.slow_down = means_slow_down(text.code, status);
  failure.other_region = text.region;
  failure.clock_skewed = text.code == "RequestTimeTooSkewed" || text.code == "RequestExpired";
  return failure;
}

S3Failure s3_failure(const HttpResponse& response, const S3Place& place) {
  S3ErrorText text = parse_error(response.text).value_or(S3ErrorText{});
  const std::string_view region = response.header("x-amz-bucket-region");
  if (text.region.empty() && !region.empty()) text.region = region;
  S3Failure failure = s3_failure(text, response.status, place);
  // Gateways in front of S3 explain failures of their own, with 500 and above, in their own words.
  if (text.code.empty() && !response.text.empty() && response.status < 500) {
    failure.error.detail +=
        "; what answered does not explain it as S3 does: is the endpoint right "
        "($AWS_ENDPOINT_URL)?";
  }
  if (failure.other_region == place.region) failure.other_region.clear();
  const bool is_elsewhere = failure.code == "PermanentRedirect" ||
                            failure.code == "AuthorizationHeaderMalformed" ||
                            failure.code == "IllegalLocationConstraintException" ||
                            response.status == 301 || response.status == 400;
  if (!is_elsewhere) failure.other_region.clear();
  if (!failure.other_region.empty()) {
    failure.error.detail +=
        fmt::format("; its region is {}: set $AWS_REGION to that", failure.other_region);
  }
  return failure;
}

std::optional<int64_t> server_clock_lead_s(const HttpResponse& response, int64_t local_seconds) {
  const std::string date(response.header("date"));
  if (date.empty()) return std::nullopt;
  const time_t server = curl_getdate(date.c_str(), nullptr);
  if (server < 0) return std::nullopt;
  return static_cast<int64_t>(server) - local_seconds;
}

std::string describe_clock(int64_t server_lead_s) {
  const auto apart = std::chrono::seconds(std::abs(server_lead_s));
  return fmt::format("this machine's clock is {} {} the server's", format_duration(apart),
                     server_lead_s > 0 ? "behind" : "ahead of");
}

}  // namespace penstock::store
