#include "store/aws_sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/units.h"

namespace penstock::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The keys, times and results of "Signature Calculations for the Authorization Header" and
// "Authenticating Requests: Using Query Parameters" in the Amazon S3 API reference.
constexpr time_t kExampleTime = 1369353600;  // 2013-05-24T00:00:00Z
constexpr std::string_view kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

Credentials example_credentials() {
  return {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
}

SigningInput example(std::string_view method, std::string_view path, std::string_view query) {
  return {.method = method,
          .host = "examplebucket.s3.amazonaws.com",
          .encoded_path = path,
          .canonical_query = query,
          .headers = {},
          .payload_hash = kEmptyHash,
          .region = "us-east-1",
          .time = kExampleTime};
}

std::string header_of(const std::vector<NameValue>& headers, std::string_view name) {
  for (const auto& [its_name, value] : headers) {
    if (its_name == name) return value;
  }
  return "";
}

TEST(SigV4, ListExampleOfTheReference) {
  Signer signer(example_credentials());
  const auto headers = signer.sign(example("GET", "/", "max-keys=2&prefix=J"));
  EXPECT_EQ(header_of(headers, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
            "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  EXPECT_EQ(header_of(headers, "x-amz-date"), "20130524T000000Z");
}

TEST(SigV4, LifecycleExampleOfTheReference) {
  Signer signer(example_credentials());
  const auto headers = signer.sign(example("GET", "/", "lifecycle="));
  EXPECT_THAT(
      header_of(headers, "authorization"),
      HasSubstr("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SigV4, PresignExampleOfTheReference) {
  Signer signer(example_credentials());
  const std::string query = signer.presign(example("GET", "/test.txt", ""), std::chrono::hours(24));
  EXPECT_EQ(query,
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"
            "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
            "X-Amz-SignedHeaders=host&X-Amz-Signature="
            "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

TEST(SigV4, KeyIsCachedPerDayAndRegion) {
  Signer warm(example_credentials());
  const auto sign_in = [](Signer& signer, std::string_view region, time_t time) {
    SigningInput input = example("GET", "/x", "");
    input.region = region;
    input.time = time;
    return header_of(signer.sign(input), "authorization");
  };
  sign_in(warm, "us-east-1", kExampleTime);
  for (const auto& [region, time] :
       {std::pair("eu-west-3", kExampleTime), std::pair("eu-west-3", kExampleTime + 86400),
        std::pair("us-east-1", kExampleTime)}) {
    Signer cold(example_credentials());
    EXPECT_EQ(sign_in(warm, region, time), sign_in(cold, region, time)) << region << time;
  }
}

TEST(SigV4, SessionTokenAndAmzHeadersAreSigned) {
  Signer signer({"AK", "SK", "TOKEN"});
  const std::vector<NameValue> extra = {{"x-amz-copy-source", "/b/k"}, {"range", "bytes=0-1"}};
  SigningInput input = example("PUT", "/x", "");
  input.headers = extra;
  const auto headers = signer.sign(input);
  EXPECT_EQ(header_of(headers, "x-amz-security-token"), "TOKEN");
  EXPECT_THAT(header_of(headers, "authorization"),
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-copy-source;x-amz-date;"
                        "x-amz-security-token,"));
}

TEST(SigV4, WithoutCredentialsNothingIsAdded) {
  Signer signer({});
  EXPECT_THAT(signer.sign(example("GET", "/", "")), IsEmpty());
}

TEST(SigV4, EncodesAsRfc3986Says) {
  EXPECT_EQ(percent_encode("a/b c+d%e~f'\xC3\xA4", true), "a/b%20c%2Bd%25e~f%27%C3%A4");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
  EXPECT_EQ(canonical_query({{"prefix", "a b/"}, {"delimiter", "/"}, {"acl", ""}}),
            "acl=&delimiter=%2F&prefix=a%20b%2F");
}

// RFC 4231, test cases 2 and 6 (a key longer than a block).
TEST(SigV4, HmacMatchesRfc4231) {
  const std::string jefe = "Jefe";
  const std::vector<uint8_t> long_key(131, 0xAA);
  const std::span<const uint8_t> key(reinterpret_cast<const uint8_t*>(jefe.data()), jefe.size());
  EXPECT_EQ(to_hex(hmac_sha256(key, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(long_key, "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(SigV4, DigestsInHexAndBase64) {
  const std::string text = "abc";
  EXPECT_EQ(to_hex(md5(std::as_bytes(std::span(text)))), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(to_base64(md5(std::as_bytes(std::span(text)))), "kAFQmDzST7DWlj99KOF/cg==");
  EXPECT_EQ(to_hex(sha256(std::string_view())), kEmptyHash);
}

}  // namespace
}  // namespace penstock::store
