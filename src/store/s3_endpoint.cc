#include "store/s3_endpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "store/aws_sigv4.h"

namespace penstock::store {

namespace {

struct Endpoint {
  bool tls = true;
  std::string host;
  std::string path;
  bool is_aws = false;
};

Error refuse_endpoint(const std::string& endpoint, std::string_view expected) {
  // What stands before an '@' may be a password.
  const size_t at = endpoint.find('@');
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("endpoint '{}': expected {}",
                  at == std::string::npos ? endpoint : "..." + endpoint.substr(at), expected));
}

// Where the port begins, if one is there; the colons of an IPv6 address are in brackets.
size_t port_colon(const std::string& host) {
  const size_t bracket = host.find(']');
  return host.find(':', bracket == std::string::npos ? 0 : bracket);
}

bool is_port(std::string_view text) {
  uint32_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && port > 0 &&
         port < 65536;
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  std::string_view rest = text;
  if (rest.starts_with("http://")) {
    endpoint.tls = false;
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else {
    return refuse_endpoint(text, "http://HOST[:PORT] or https://HOST[:PORT]");
  }
  const bool has_odd = std::any_of(rest.begin(), rest.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '\\';
  });
  if (has_odd) return refuse_endpoint(text, "an address without spaces, queries or fragments");
  if (rest.find('@') != std::string_view::npos) {
    return refuse_endpoint(text, "no user or password in the address; keys are given apart");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  endpoint.path = rest.substr(slash);
  while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
  endpoint.host = rest.substr(0, slash);
  const size_t colon = port_colon(endpoint.host);
  if (endpoint.host.empty() || colon == 0) return refuse_endpoint(text, "a host");
  if (colon != std::string::npos) {
    const std::string port = endpoint.host.substr(colon + 1);
    if (!is_port(port)) return refuse_endpoint(text, "a port from 1 to 65535 after the ':'");
    if (port == (endpoint.tls ? "443" : "80")) endpoint.host.resize(colon);
  }
  endpoint.is_aws =
      endpoint.host.ends_with(".amazonaws.com") || endpoint.host.ends_with(".amazonaws.com.cn");
  return endpoint;
}

Result<void> check_bucket(const std::string& bucket) {
  const bool is_plain = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (bucket.size() >= 3 && bucket.size() <= 255 && is_plain && bucket.front() != '.') return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' is not a bucket's name: expected at least 3 letters, digits, "
                                "'-', '.' or '_'",
                                bucket));
}

bool use_virtual_host(const S3Options& options, const Endpoint& endpoint,
                      const std::string& bucket) {
  switch (options.style) {
    case AddressStyle::kPath:
      return false;
    case AddressStyle::kVirtualHost:
      return true;
    case AddressStyle::kAuto:
      // A certificate for *.host does not cover a name with another dot in it.
      return endpoint.is_aws &&
             bucket.find_first_of("._ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
  }
  return false;
}

std::string identity_of(const Endpoint& endpoint, const std::string& bucket) {
  std::string host = endpoint.host;
  for (char& c : host) {  // Names of hosts know no case.
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (!endpoint.tls && port_colon(host) == std::string::npos) host += ":80";
  return fmt::format("s3://{}{}/{}/", host, endpoint.path, bucket);
}

}  // namespace

std::string S3Target::encoded_path(std::string_view key) const {
  return base_path + "/" + percent_encode(key, true);
}

std::string S3Target::url(std::string_view encoded_path, std::string_view query) const {
  std::string out = tls ? "https://" : "http://";
  out.reserve(out.size() + host.size() + encoded_path.size() + query.size() + 1);
  out += host;
  out += encoded_path;
  if (!query.empty()) {
    out += '?';
    out += query;
  }
  return out;
}

Result<S3Target> make_s3_target(const S3Options& options, const std::string& bucket) {
  PENSTOCK_TRY(check_bucket(bucket));
  std::string address = options.endpoint;
  if (address.empty()) {
    const char* domain = options.region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
    address = fmt::format("https://s3.{}.{}", options.region, domain);
  }
  const Endpoint endpoint = PENSTOCK_TRY(parse_endpoint(address));
  S3Target target;
  target.identity = identity_of(endpoint, bucket);
  target.tls = endpoint.tls;
  target.region = options.region;
  if (use_virtual_host(options, endpoint, bucket)) {
    target.host = bucket + "." + endpoint.host;
    target.base_path = endpoint.path;
  } else {
    target.host = endpoint.host;
    target.base_path = endpoint.path + "/" + percent_encode(bucket, false);
  }
  return target;
}

}  // namespace penstock::store
