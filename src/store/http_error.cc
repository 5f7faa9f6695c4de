#include "store/http_error.h"

#include <fmt/core.h>

namespace penstock::store {

namespace {

struct Rule {
  CURLcode curl;
  ErrorCode code;
  bool retryable;
  std::string_view advice;
};

constexpr Rule kRules[] = {
    {CURLE_URL_MALFORMAT, ErrorCode::kInvalid, false, "check the endpoint's address"},
    {CURLE_UNSUPPORTED_PROTOCOL, ErrorCode::kInvalid, false,
     "the endpoint begins with http:// or https://"},
    {CURLE_COULDNT_RESOLVE_PROXY, ErrorCode::kUnavailable, true,
     "check $http_proxy and $https_proxy"},
    {CURLE_COULDNT_RESOLVE_HOST, ErrorCode::kUnavailable, true,
     "check the endpoint's name ($AWS_ENDPOINT_URL) and the DNS"},
    {CURLE_COULDNT_CONNECT, ErrorCode::kUnavailable, true,
     "check that the server runs and that the endpoint's host and port are right "
     "($AWS_ENDPOINT_URL)"},
    {CURLE_PEER_FAILED_VERIFICATION, ErrorCode::kUnavailable, false,
     "if the server's certificate is signed by your own authority, name its PEM file in "
     "$AWS_CA_BUNDLE"},
    {CURLE_SSL_CACERT_BADFILE, ErrorCode::kInvalid, false,
     "the CA file ($AWS_CA_BUNDLE) must be a readable PEM bundle"},
    {CURLE_SSL_CONNECT_ERROR, ErrorCode::kUnavailable, true,
     "if the server does not speak TLS on that port, the endpoint begins with http://"},
    {CURLE_PARTIAL_FILE, ErrorCode::kIo, true, ""},
    {CURLE_OPERATION_TIMEDOUT, ErrorCode::kTimeout, true,
     "check that the endpoint can be reached from here"},
    {CURLE_GOT_NOTHING, ErrorCode::kUnavailable, true, ""},
    {CURLE_SEND_ERROR, ErrorCode::kUnavailable, true, ""},
    {CURLE_RECV_ERROR, ErrorCode::kUnavailable, true, ""},
    {CURLE_WEIRD_SERVER_REPLY, ErrorCode::kIo, true,
     "what answers there does not speak HTTP as expected"},
    {CURLE_OUT_OF_MEMORY, ErrorCode::kNoMemory, true, ""},
};

}  // namespace

Error http_transport_error(CURLcode code, int os_errno, std::string_view text) {
  // Curl takes an answer without any header for one of the first version of HTTP.
  if (code == CURLE_UNSUPPORTED_PROTOCOL && text.find("HTTP/0.9") != std::string_view::npos) {
    return make_error(ErrorCode::kUnavailable,
                      "what answers there does not speak HTTP (check the endpoint's host and port, "
                      "and whether it begins with https://: $AWS_ENDPOINT_URL)");
  }
  Error error{ErrorCode::kIo, true, os_errno, std::string(text)};
  if (error.detail.empty()) error.detail = curl_easy_strerror(code);
  for (const Rule& rule : kRules) {
    if (rule.curl != code) continue;
    error.code = rule.code;
    error.retryable = rule.retryable;
    if (!rule.advice.empty()) error.detail += fmt::format(" ({})", rule.advice);
  }
  return error;
}

}  // namespace penstock::store
