#include "store/aws_sigv4.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

namespace penstock::store {

namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

// OpenSSL 3 looks an algorithm up by name whenever EVP_sha256() is used, which costs more than
// hashing a short text; fetched once it costs nothing.
const EVP_MD* fetched(const char* name) {
  EVP_MD* algorithm = EVP_MD_fetch(nullptr, name, nullptr);
  assert(algorithm != nullptr);
  return algorithm;
}
const EVP_MD* sha256_algorithm() {
  static const EVP_MD* const algorithm = fetched("SHA256");
  return algorithm;
}
const EVP_MD* md5_algorithm() {
  static const EVP_MD* const algorithm = fetched("MD5");
  return algorithm;
}

// One digest over pieces, with the context kept per thread.
class Hasher {
 public:
  explicit Hasher(const EVP_MD* algorithm) { EVP_DigestInit_ex2(context(), algorithm, nullptr); }
  Hasher& add(const void* data, size_t size) {
    EVP_DigestUpdate(context(), data, size);
    return *this;
  }
  template <size_t N>
  std::array<uint8_t, N> finish() {
    std::array<uint8_t, N> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context(), digest.data(), &size);
    assert(size == N);
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  static EVP_MD_CTX* context() {
    thread_local const std::unique_ptr<EVP_MD_CTX, Free> kept(EVP_MD_CTX_new());
    return kept.get();
  }
};

bool is_unreserved(unsigned char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// Spaces at the ends go, runs of them become one.
std::string trimmed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

struct SignedHeaders {
  std::string canonical;  // "name:value\n" each.
  std::string names;      // "a;b;c"
};

SignedHeaders signed_headers(std::string_view host, std::vector<NameValue> amz) {
  amz.emplace_back("host", host);
  std::sort(amz.begin(), amz.end());
  SignedHeaders out;
  for (const auto& [name, value] : amz) {
    out.canonical += name + ':' + trimmed(value) + '\n';
    if (!out.names.empty()) out.names += ';';
    out.names += name;
  }
  return out;
}

}  // namespace

Sha256 sha256(std::string_view text) {
  return Hasher(sha256_algorithm()).add(text.data(), text.size()).finish<32>();
}

Sha256 sha256(std::span<const std::byte> bytes) {
  return Hasher(sha256_algorithm()).add(bytes.data(), bytes.size()).finish<32>();
}

Md5 md5(std::span<const std::byte> bytes) {
  return Hasher(md5_algorithm()).add(bytes.data(), bytes.size()).finish<16>();
}

Sha256 hmac_sha256(std::span<const uint8_t> key, std::string_view text) {
  constexpr size_t kBlock = 64;
  std::array<uint8_t, kBlock> inner{};
  if (key.size() > kBlock) {
    const Sha256 hashed = sha256(std::as_bytes(key));
    std::copy(hashed.begin(), hashed.end(), inner.begin());
  } else {
    std::copy(key.begin(), key.end(), inner.begin());
  }
  std::array<uint8_t, kBlock> outer = inner;
  for (uint8_t& byte : inner) byte ^= 0x36;
  for (uint8_t& byte : outer) byte ^= 0x5C;
  const Sha256 digest = Hasher(sha256_algorithm())
                            .add(inner.data(), kBlock)
                            .add(text.data(), text.size())
                            .finish<32>();
  return Hasher(sha256_algorithm())
      .add(outer.data(), kBlock)
      .add(digest.data(), digest.size())
      .finish<32>();
}

std::string to_hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string to_base64(std::span<const uint8_t> bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes.data(),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size() + 16);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(byte) || (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string canonical_query(std::vector<NameValue> parameters) {
  for (auto& [name, value] : parameters) {
    name = percent_encode(name, false);
    value = percent_encode(value, false);
  }
  std::sort(parameters.begin(), parameters.end());
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!out.empty()) out += '&';
    out += name + '=' + value;
  }
  return out;
}

std::string amz_date(time_t time) {
  struct tm utc {};
  gmtime_r(&time, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

Signer::Signer(Credentials credentials, std::string service)
    : credentials_(std::move(credentials)), service_(std::move(service)) {}

Sha256 Signer::signing_key(std::string_view date, std::string_view region) {
  const std::string wanted = fmt::format("{}/{}", date, region);
  std::lock_guard lock(mutex_);
  if (cached_for_ == wanted) return cached_key_;
  const std::string secret = "AWS4" + credentials_.secret_key;
  const std::span<const uint8_t> first(reinterpret_cast<const uint8_t*>(secret.data()),
                                       secret.size());
  const Sha256 date_key = hmac_sha256(first, date);
  const Sha256 region_key = hmac_sha256(date_key, region);
  const Sha256 service_key = hmac_sha256(region_key, service_);
  cached_key_ = hmac_sha256(service_key, "aws4_request");
  cached_for_ = wanted;
  return cached_key_;
}

std::string Signer::scope(const SigningInput& input, std::string_view date_time) const {
  return fmt::format("{}/{}/{}/aws4_request", date_time.substr(0, 8), input.region, service_);
}

std::string Signer::signature(const SigningInput& input, std::string_view date_time,
                              std::string_view canonical_request) {
  const std::string to_sign =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date_time, scope(input, date_time),
                  to_hex(sha256(canonical_request)));
  return to_hex(hmac_sha256(signing_key(date_time.substr(0, 8), input.region), to_sign));
}

std::vector<NameValue> Signer::sign(const SigningInput& input) {
  std::vector<NameValue> added;
  if (credentials_.access_key.empty()) return added;
  const std::string date_time = amz_date(input.time);
  added.emplace_back("x-amz-content-sha256", input.payload_hash);
  added.emplace_back("x-amz-date", date_time);
  if (!credentials_.session_token.empty()) {
    added.emplace_back("x-amz-security-token", credentials_.session_token);
  }
  std::vector<NameValue> amz = added;
  for (const NameValue& header : input.headers) {
    if (header.first.starts_with("x-amz-")) amz.push_back(header);
  }
  const SignedHeaders headers = signed_headers(input.host, std::move(amz));
  const std::string canonical_request =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", input.method, input.encoded_path, input.canonical_query,
                  headers.canonical, headers.names, input.payload_hash);
  added.emplace_back("authorization",
                     fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                                 credentials_.access_key, scope(input, date_time), headers.names,
                                 signature(input, date_time, canonical_request)));
  return added;
}

std::string Signer::presign(const SigningInput& input, Nanoseconds valid) {
  const std::string date_time = amz_date(input.time);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(valid).count();
  std::vector<NameValue> parameters = {
      {"X-Amz-Algorithm", std::string(kAlgorithm)},
      {"X-Amz-Credential", credentials_.access_key + "/" + scope(input, date_time)},
      {"X-Amz-Date", date_time},
      {"X-Amz-Expires", std::to_string(seconds)},
      {"X-Amz-SignedHeaders", "host"},
  };
  if (!credentials_.session_token.empty()) {
    parameters.emplace_back("X-Amz-Security-Token", credentials_.session_token);
  }
  const std::string query = canonical_query(std::move(parameters));
  const std::string canonical_request =
      fmt::format("{}\n{}\n{}\nhost:{}\n\nhost\n{}", input.method, input.encoded_path, query,
                  input.host, kUnsignedPayload);
  return query + "&X-Amz-Signature=" + signature(input, date_time, canonical_request);
}

}  // namespace penstock::store
