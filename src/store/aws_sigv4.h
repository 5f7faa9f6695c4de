// AWS Signature Version 4, as S3 wants it: paths are percent-encoded once and never normalised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/units.h"

namespace penstock::store {

using Sha256 = std::array<uint8_t, 32>;
using Md5 = std::array<uint8_t, 16>;

Sha256 sha256(std::string_view text);
Sha256 sha256(std::span<const std::byte> bytes);
Sha256 hmac_sha256(std::span<const uint8_t> key, std::string_view text);
Md5 md5(std::span<const std::byte> bytes);
std::string to_hex(std::span<const uint8_t> bytes);
std::string to_base64(std::span<const uint8_t> bytes);

// What goes where a payload's hash would, when the payload is not signed.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// RFC 3986: all but A-Z a-z 0-9 - _ . ~ becomes %XX; '/' too unless `keep_slashes`.
std::string percent_encode(std::string_view text, bool keep_slashes);

// Name and value, neither encoded.
using NameValue = std::pair<std::string, std::string>;

// "a=1&b=2%203": encoded and in the order that is signed.
std::string canonical_query(std::vector<NameValue> parameters);

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;
};

struct SigningInput {
  std::string_view method;
  std::string_view host;          // As in the Host header: with the port unless it is the default.
  std::string_view encoded_path;  // Begins with '/'.
  std::string_view canonical_query;  // From canonical_query().
  std::span<const NameValue>
      headers;                    // Those with names in x-amz- are signed; names in lower case.
  std::string_view payload_hash;  // Hex, or kUnsignedPayload.
  std::string_view region;
  time_t time = 0;  // As the server's clock has it.
};

// Signs for one set of credentials. Threads: all calls from any thread.
class Signer {
 public:
  explicit Signer(Credentials credentials, std::string service = "s3");

  // The headers to add: authorization, x-amz-date, x-amz-content-sha256 and, with a session,
  // x-amz-security-token. None for empty credentials.
  std::vector<NameValue> sign(const SigningInput& input);

  // The whole query string of a presigned request, signature included: what remains after '?'.
  // Only the host is signed.
  std::string presign(const SigningInput& input, Nanoseconds valid);

 private:
  std::string signature(const SigningInput& input, std::string_view date_time,
                        std::string_view canonical_request);
  std::string scope(const SigningInput& input, std::string_view date_time) const;
  Sha256 signing_key(std::string_view date, std::string_view region);

  const Credentials credentials_;
  const std::string service_;
  std::mutex mutex_;
  std::string cached_for_;  // Date and region of `cached_key_`: it changes once a day.
  Sha256 cached_key_{};
};

// "20130524T000000Z"
std::string amz_date(time_t time);

}  // namespace penstock::store
