#include "volume/control_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "base/result_matchers.h"
#include "volume/control_messages.h"

namespace penstock::volume::control {
namespace {

TEST(ControlFormat, HeadersComeBack) {
  const Header header{
      .kind = Kind::kGet, .request = 0x0102030405060708, .body_bytes = 77, .payload_bytes = 99};
  const Result<Header> again = decode_header(encode_header(header));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->kind, Kind::kGet);
  EXPECT_EQ(again->request, header.request);
  EXPECT_EQ(again->body_bytes, 77u);
  EXPECT_EQ(again->payload_bytes, 99u);
}

TEST(ControlFormat, WhatIsNoHeaderIsRefused) {
  auto bytes = encode_header({});
  bytes[0] ^= std::byte{1};
  EXPECT_THAT(decode_header(bytes), FailsWith(ErrorCode::kCorrupt));
  bytes = encode_header({.body_bytes = kBodyBytesMax + 1});
  EXPECT_THAT(decode_header(bytes), FailsWith(ErrorCode::kCorrupt));
  bytes = encode_header({.payload_bytes = kPayloadBytesMax + 1});
  EXPECT_THAT(decode_header(bytes), FailsWith(ErrorCode::kCorrupt));
  bytes = encode_header({});
  bytes[4] = std::byte{9};  // The version.
  EXPECT_THAT(decode_header(bytes), FailsWith(ErrorCode::kUnsupported));
}

TEST(ControlFormat, ErrorsKeepAllTheyHave) {
  Error error = make_error(ErrorCode::kNoSpace, "it is full", true);
  error.os_errno = ENOSPC;
  const Error again = decode_error(encode_error(error));
  EXPECT_EQ(again.code, ErrorCode::kNoSpace);
  EXPECT_TRUE(again.retryable);
  EXPECT_EQ(again.os_errno, ENOSPC);
  EXPECT_EQ(again.detail, "it is full");
  EXPECT_EQ(decode_error({}).code, ErrorCode::kCorrupt);
}

TEST(ControlFormat, MessagesComeBack) {
  VolumeStatus status;
  status.settings.name = "train";
  status.settings.retention = std::nullopt;
  status.settings.codec.level = 7;
  status.host.pending.oldest = 12345;
  status.snapshots = {{"a", 1, 2}, {"b", 3, 4}};
  status.mounted_at = "/mnt";
  const Result<VolumeStatus> again = decode<VolumeStatus>(encode(status));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->settings.name, "train");
  EXPECT_FALSE(again->settings.retention);
  EXPECT_EQ(again->settings.codec.level, 7);
  EXPECT_EQ(again->host.pending.oldest, 12345);
  ASSERT_EQ(again->snapshots.size(), 2u);
  EXPECT_EQ(again->snapshots[1].name, "b");
  EXPECT_EQ(again->mounted_at, "/mnt");
}

TEST(ControlFormat, CountsThatAreNotTrueTakeNoMemory) {
  RecordWriter writer;
  writer.number(uint32_t{0xffffffff});
  EXPECT_THAT(decode<std::vector<std::string>>(writer.take()), FailsWith(ErrorCode::kCorrupt));
  RecordWriter text;
  text.number(uint32_t{0xfffffff0});
  EXPECT_THAT(decode<KeyRequest>(text.take()), FailsWith(ErrorCode::kCorrupt));
}

TEST(ControlFormat, OneByteLessOrMoreIsNoMessage) {
  std::vector<std::byte> body = encode(GetRequest{.key = "a/b", .offset = 5, .length = 6});
  EXPECT_TRUE(is_request_body(Kind::kGet, body));
  body.push_back(std::byte{0});
  EXPECT_FALSE(is_request_body(Kind::kGet, body));
  body.resize(body.size() - 2);
  EXPECT_FALSE(is_request_body(Kind::kGet, body));
  EXPECT_FALSE(is_request_body(Kind::kAnswer, {}));
  EXPECT_TRUE(is_request_body(Kind::kMetrics, encode(VolumeRequest{"v"})));
  EXPECT_FALSE(is_request_body(Kind::kMetrics, {}));
}

TEST(ControlFormat, ARequestToMountIsOneToItsLastByte) {
  const MountRequest request{
      .volume = "v", .directory = "/mnt", .at = 5, .gid = 6, .access_times = 1, .name_space = 7};
  std::vector<std::byte> body = encode(request);
  EXPECT_TRUE(is_request_body(Kind::kMount, body));
  const Result<MountRequest> again = decode<MountRequest>(body);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->directory, "/mnt");
  EXPECT_EQ(again->at, 5);
  EXPECT_FALSE(again->uid);
  EXPECT_EQ(again->gid, 6u);
  EXPECT_EQ(again->name_space, 7u);
  body.pop_back();
  EXPECT_FALSE(is_request_body(Kind::kMount, body));
}

TEST(ControlFormat, AnyBytesAreReadWithoutHarm) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 64);
    // Small numbers make sense more often.
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4);
    (void)is_request_body(static_cast<Kind>(random() % 64), bytes);
    (void)decode<store::ListPage>(bytes);
    (void)decode<VolumeStatus>(bytes);
  }
}

}  // namespace
}  // namespace penstock::volume::control
