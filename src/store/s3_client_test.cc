// The parts of the S3 client that need no server. Those that do are in tests/s3.
#include "store/s3_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/s3_checksum.h"
#include "store/s3_object.h"

namespace penstock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

S3Options with_keys() {
  S3Options options;
  options.access_key = "AK";
  options.secret_key = "SK";
  return options;
}

std::string url_of(S3Options options, const std::string& bucket, const std::string& key) {
  const auto target = make_s3_target(options, bucket);
  if (!target.ok()) return target.error().to_string();
  return target->url(target->encoded_path(key), "");
}

TEST(S3Endpoint, StyleFollowsServerAndBucket) {
  S3Options aws = with_keys();
  aws.region = "eu-west-3";
  EXPECT_EQ(url_of(aws, "data", "a b/c"), "https://data.s3.eu-west-3.amazonaws.com/a%20b/c");
  EXPECT_EQ(url_of(aws, "my.data", "k"), "https://s3.eu-west-3.amazonaws.com/my.data/k");
  aws.style = AddressStyle::kPath;
  EXPECT_EQ(url_of(aws, "data", "k"), "https://s3.eu-west-3.amazonaws.com/data/k");
  aws.region = "cn-north-1";
  EXPECT_EQ(url_of(aws, "data", "k"), "https://s3.cn-north-1.amazonaws.com.cn/data/k");
  S3Options own = with_keys();
  own.endpoint = "http://ceph:7480/";
  EXPECT_EQ(url_of(own, "data", "k"), "http://ceph:7480/data/k");
  own.style = AddressStyle::kVirtualHost;
  EXPECT_EQ(url_of(own, "data", "k"), "http://data.ceph:7480/k");
  own.style = AddressStyle::kAuto;
  own.endpoint = "https://gate:443/s3";
  EXPECT_EQ(url_of(own, "data", "k"), "https://gate/s3/data/k");
  own.endpoint = "http://[::1]:80";
  EXPECT_EQ(url_of(own, "data", "k"), "http://[::1]/data/k");
}

std::string identity_of(S3Options options, const std::string& bucket) {
  const auto target = make_s3_target(options, bucket);
  return target.ok() ? target->identity : target.error().to_string();
}

TEST(S3Endpoint, IdentityIsTheSameInEitherStyleAndForEveryone) {
  S3Options aws = with_keys();
  aws.region = "eu-west-3";
  EXPECT_EQ(identity_of(aws, "data"), "s3://s3.eu-west-3.amazonaws.com/data/");
  aws.style = AddressStyle::kPath;
  aws.access_key = "other";
  EXPECT_EQ(identity_of(aws, "data"), "s3://s3.eu-west-3.amazonaws.com/data/");
  S3Options own = with_keys();
  for (const char* endpoint : {"http://ceph:7480", "http://ceph:7480/", "http://Ceph:7480"}) {
    own.endpoint = endpoint;
    for (const AddressStyle style : {AddressStyle::kPath, AddressStyle::kVirtualHost}) {
      own.style = style;
      EXPECT_EQ(identity_of(own, "data"), "s3://ceph:7480/data/");
    }
  }
  own.endpoint = "https://gate:443/s3";
  EXPECT_EQ(identity_of(own, "data"), "s3://gate/s3/data/");
}

TEST(S3Endpoint, IdentityDiffersWhereTheServerMay) {
  S3Options own = with_keys();
  own.endpoint = "http://gate";
  EXPECT_EQ(identity_of(own, "data"), "s3://gate:80/data/");
  own.endpoint = "http://[::1]";
  EXPECT_EQ(identity_of(own, "data"), "s3://[::1]:80/data/");
  own.endpoint = "http://[::1]:81";
  EXPECT_EQ(identity_of(own, "data"), "s3://[::1]:81/data/");
  own.endpoint = "https://gate";
  EXPECT_EQ(identity_of(own, "Data"), "s3://gate/Data/");
}

TEST(S3Endpoint, RefusesWhatIsNone) {
  for (const char* endpoint : {"ceph:7480", "ftp://x", "http://", "http://:80", "http://h:0",
                               "http://h:99999", "http://h:", "http://a b", "http://h?x"}) {
    S3Options options = with_keys();
    options.endpoint = endpoint;
    EXPECT_EQ(validate(options).error().code, ErrorCode::kInvalid) << endpoint;
  }
  S3Options options = with_keys();
  options.endpoint = "http://user:hush@host";
  EXPECT_THAT(validate(options).error().detail,
              AllOf(HasSubstr("no user or password"), Not(HasSubstr("hush"))));
  for (const char* bucket : {"", "ab", "a/b", "a b", ".hidden", "a?b"}) {
    EXPECT_FALSE(make_s3_target(with_keys(), bucket).ok()) << bucket;
  }
}

TEST(S3Options, ValidateNamesTheOption) {
  const auto refused = [](auto change) {
    S3Options options = with_keys();
    change(options);
    const auto result = validate(options);
    return result.ok() ? std::string("accepted") : result.error().detail;
  };
  EXPECT_TRUE(validate(with_keys()).ok());
  EXPECT_TRUE(validate(S3Options{}).ok());
  EXPECT_THAT(refused([](S3Options& o) { o.secret_key.clear(); }), HasSubstr("access_key"));
  EXPECT_THAT(refused([](S3Options& o) { o.access_key = "a\nb"; }), HasSubstr("access_key"));
  EXPECT_THAT(refused([](S3Options& o) { o.session_token = "a b"; }), HasSubstr("session_token"));
  EXPECT_THAT(refused([](S3Options& o) { o.region = ""; }), HasSubstr("region"));
  EXPECT_THAT(refused([](S3Options& o) { o.ca_file = "/no/such/file"; }), HasSubstr("ca_file"));
  EXPECT_THAT(refused([](S3Options& o) { o.connections = 0; }), HasSubstr("connections"));
  EXPECT_THAT(refused([](S3Options& o) { o.attempts = 101; }), HasSubstr("attempts"));
  EXPECT_THAT(refused([](S3Options& o) { o.backoff_min = seconds(0); }), HasSubstr("backoff_min"));
  EXPECT_THAT(refused([](S3Options& o) { o.backoff_max = milliseconds(1); }),
              HasSubstr("backoff_max"));
  EXPECT_THAT(refused([](S3Options& o) { o.connect_timeout = seconds(0); }),
              HasSubstr("connect_timeout"));
  EXPECT_THAT(refused([](S3Options& o) { o.stall_timeout = seconds(0); }),
              HasSubstr("stall_timeout"));
  EXPECT_THAT(refused([](S3Options& o) { o.hedge_after = seconds(-1); }), HasSubstr("hedge_after"));
  EXPECT_THAT(refused([](S3Options& o) { o.part_bytes = kMiB; }), HasSubstr("part_bytes"));
  EXPECT_THAT(refused([](S3Options& o) { o.parts_in_flight = 0; }), HasSubstr("parts_in_flight"));
}

TEST(S3Backoff, DelaysDoubleUpToTheLimit) {
  S3Backoff backoff(milliseconds(10), milliseconds(100), 1);
  for (uint32_t failures = 1; failures < 40; ++failures) {
    const auto limit = std::min<Nanoseconds>(milliseconds(10) * (1LL << std::min(failures - 1, 9U)),
                                             milliseconds(100));
    Nanoseconds longest{0};
    for (int i = 0; i < 200; ++i) longest = std::max(longest, backoff.delay(failures));
    EXPECT_LE(longest, limit);
    EXPECT_GT(longest, limit / 2) << "full jitter reaches the whole range";
  }
}

TEST(S3Backoff, OneStormIsOneHold) {
  S3Backoff backoff(milliseconds(100), seconds(10), 1);
  const S3Backoff::Time begin{seconds(1000)};
  EXPECT_EQ(backoff.admit(begin), begin);
  backoff.slow_down(begin, begin + milliseconds(5), seconds(0));
  // 31 answers to requests sent before the hold change nothing.
  for (int i = 0; i < 31; ++i) backoff.slow_down(begin, begin + milliseconds(6), seconds(0));
  const auto admitted = backoff.admit(begin + milliseconds(7));
  EXPECT_GE(admitted, begin + milliseconds(55));
  EXPECT_LE(admitted, begin + milliseconds(160));
  const auto after = begin + milliseconds(200);
  EXPECT_EQ(backoff.admit(after), after);
}

TEST(S3Backoff, HoldGrowsWhileTheServerInsistsAndShrinksWhenServed) {
  S3Backoff backoff(milliseconds(100), seconds(10), 1);
  S3Backoff::Time now{seconds(1000)};
  for (int i = 0; i < 5; ++i) {
    backoff.slow_down(now, now, seconds(0));
    Nanoseconds wait{0};
    while (backoff.admit(now + wait) != now + wait) wait += milliseconds(1);
    EXPECT_GE(wait, milliseconds(50) * (1 << i));
    EXPECT_LE(wait, milliseconds(101) * (1 << i));
    now += wait;
  }
  for (int i = 0; i < 5; ++i) backoff.served(now);
  backoff.slow_down(now, now, seconds(0));
  const auto admitted = backoff.admit(now);
  EXPECT_LE(admitted - now, milliseconds(150));
  backoff.slow_down(now, now, seconds(3));
  EXPECT_GE(backoff.admit(now) - now, seconds(3)) << "the server's own wait is kept";
}

TEST(S3Checksum, CheckValueOfTheStandard) {
  const std::string text = "123456789";
  EXPECT_EQ(crc64nvme(std::as_bytes(std::span(text))), 0xAE8B14860A799888ULL);
}

HttpResponse answer_with(const std::string& headers) {
  HttpResponse response;
  response.status = 200;
  response.header_lines = "HTTP/1.1 200 OK\r\n" + headers + "\r\n";
  return response;
}

TEST(S3Checksum, DeclaredOnesAreCompared) {
  const std::string text = "abc";
  const auto bytes = std::as_bytes(std::span(text));
  for (const char* right :
       {"", "X-Amz-Checksum-Crc32: NSRBwg==\r\n", "x-amz-checksum-crc32c: Nks/tw==\r\n",
        "x-amz-checksum-sha1: qZk+NkcGgWq6PiVxeFDCbJzQ2J0=\r\n",
        "x-amz-checksum-sha256: ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=\r\n",
        "x-amz-checksum-crc32: AAAAAA==-2\r\n",
        "x-amz-checksum-type: COMPOSITE\r\nx-amz-checksum-crc32: AAAAAA==\r\n"}) {
    EXPECT_TRUE(check_declared_checksum(answer_with(right), bytes).ok()) << right;
  }
  for (const char* wrong : {"x-amz-checksum-crc32: AAAAAA==\r\n", "x-amz-checksum-sha256: x\r\n",
                            "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n"}) {
    EXPECT_EQ(check_declared_checksum(answer_with(wrong), bytes).error().code, ErrorCode::kCorrupt);
  }
}

TEST(S3Checksum, EtagOnlyWhereItIsAnMd5) {
  const std::string text = "abc";
  const auto bytes = std::as_bytes(std::span(text));
  const std::string wrong = "00000000000000000000000000000000";
  EXPECT_TRUE(check_etag_md5({}, "900150983cd24fb0d6963f7d28e17f72", bytes).ok());
  EXPECT_TRUE(check_etag_md5({}, wrong + "-2", bytes).ok());
  EXPECT_FALSE(check_etag_md5({}, wrong, bytes).ok());
  const auto encrypted = answer_with("x-amz-server-side-encryption: aws:kms\r\n");
  EXPECT_TRUE(check_etag_md5(encrypted, wrong, bytes).ok());
}

TEST(S3Object, ContentRange) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, 5U);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->size, 100U);
  for (const char* text : {"", "bytes", "bytes 5-9", "bytes 9-5/100", "bytes 5-100/100",
                           "bytes */100", "bytes -5-9/100", "bytes 5-9/*", "items 5-9/100"}) {
    EXPECT_FALSE(parse_content_range(text).ok()) << text;
  }
}

TEST(S3Object, HeadersAreFoundInAnyCase) {
  const HttpResponse response = answer_with("ETag:  \"x\" \r\nContent-Length: 7\r\nEmpty:\r\n");
  EXPECT_EQ(response.header("etag"), "\"x\"");
  EXPECT_EQ(response.header("CONTENT-LENGTH"), "7");
  EXPECT_EQ(response.header("empty"), "");
  EXPECT_EQ(response.header("tag"), "");
  EXPECT_EQ(object_info("k", response)->size, 7U);
  EXPECT_FALSE(object_info("k", answer_with("ETag: x\r\n")).ok());
}

TEST(S3Error, EveryRefusalSaysWhatToDo) {
  const S3Place place{"data", "ceph:7480", "us-east-1", true};
  const auto error_for = [&](int status, const std::string& code) {
    return s3_failure(S3ErrorText{code, "", ""}, status, place);
  };
  EXPECT_THAT(error_for(404, "NoSuchBucket").error.detail, HasSubstr("no bucket 'data' at ceph"));
  EXPECT_EQ(error_for(404, "NoSuchKey").error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error_for(412, "PreconditionFailed").error.code, ErrorCode::kChanged);
  EXPECT_THAT(error_for(403, "ExpiredToken").error.detail, HasSubstr("get new credentials"));
  EXPECT_TRUE(error_for(503, "SlowDown").slow_down);
  EXPECT_FALSE(error_for(503, "ServiceUnavailable").slow_down);
  EXPECT_TRUE(error_for(503, "ServiceUnavailable").error.retryable);
  EXPECT_TRUE(error_for(429, "").slow_down);
  EXPECT_TRUE(error_for(599, "").error.retryable);
  EXPECT_FALSE(error_for(400, "").error.retryable);
  EXPECT_TRUE(error_for(403, "RequestTimeTooSkewed").clock_skewed);
  EXPECT_THAT(describe_clock(720), HasSubstr("12 m 0 s behind the server's"));
  EXPECT_THAT(describe_clock(-3600), HasSubstr("ahead of the server's"));
}

TEST(S3Client, RefusesBadOptionsBeforeAnyThread) {
  S3Options options = with_keys();
  options.attempts = 0;
  EXPECT_EQ(open_s3_store("data", "", options).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(open_s3_store("data", "a//b", with_keys()).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(open_store("nothing://x", {}).error().code, ErrorCode::kInvalid);
}

TEST(S3Client, SecretsAreTakenOutOfTexts) {
  S3Options options = with_keys();
  options.secret_key = "topsecret";
  options.session_token = "tokentoken";
  const auto client = S3Client::create("data", options);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->redacted("a topsecret b tokentoken topsecret"), "a *** b *** ***");
}

TEST(S3Presign, RefusesWithoutKeysOrTime) {
  EXPECT_EQ(presign_get("data", "k", S3Options{}, seconds(5)).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(presign_get("data", "k", with_keys(), milliseconds(5)).error().code,
            ErrorCode::kInvalid);
  const auto url = presign_get("data", "a b", with_keys(), seconds(5));
  ASSERT_TRUE(url.ok());
  EXPECT_THAT(*url, AllOf(HasSubstr("https://data.s3.us-east-1.amazonaws.com/a%20b?X-Amz-"),
                          HasSubstr("X-Amz-Expires=5&"), Not(HasSubstr("SK"))));
}

}  // namespace
}  // namespace penstock::store
