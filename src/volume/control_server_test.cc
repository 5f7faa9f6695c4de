// The control socket under peers that behave, and those that do not.
#include "volume/control_server.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <thread>

#include "volume/control_call.h"
#include "volume/control_test_support.h"

namespace penstock::volume {
namespace {

using control::Kind;

void send_raw(const control::Channel& channel, std::span<const std::byte> bytes) {
  ASSERT_EQ(::send(channel.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

control::Link connect(const RealVolume& volume) {
  control::Link link;
  Result<control::Channel> channel = control::connect_to_owner(volume.directory());
  EXPECT_THAT(channel, IsOk());
  if (channel.ok()) link.channel = std::move(*channel);
  return link;
}

void expect_served(const RealVolume& volume) {
  control::Link link = connect(volume);
  EXPECT_THAT(control::call(link, Kind::kVolumes, {}, {}), IsOk());
}

TEST(ControlServer, OnlyItsUserSeesTheSocket) {
  const RealVolume volume;
  const auto owner = volume.own();
  struct stat info {};
  ASSERT_EQ(::stat((volume.directory() + "/control").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(ControlServer, TheSocketGoesWithTheOwner) {
  const RealVolume volume;
  volume.own();
  EXPECT_FALSE(std::filesystem::exists(volume.directory() + "/control"));
  EXPECT_THAT(control::connect_to_owner(volume.directory()), FailsWith(ErrorCode::kUnavailable));
}

TEST(ControlServer, WhatADeadOwnerLeftIsReplaced) {
  const RealVolume volume;
  {
    // As if it had been killed: the name stays, nobody listens.
    const std::string aside = volume.directory() + "/aside";
    const auto owner = volume.own();
    std::filesystem::rename(volume.directory() + "/control", aside);
    std::filesystem::create_hard_link(aside, volume.directory() + "/kept");
  }
  std::filesystem::rename(volume.directory() + "/kept", volume.directory() + "/control");
  EXPECT_THAT(control::connect_to_owner(volume.directory()), FailsWith(ErrorCode::kUnavailable));
  const auto admin = open_admin(volume.directory(), RealVolume::options());
  ASSERT_THAT(admin, IsOk());
  EXPECT_THAT((*admin)->status("v"), IsOk());
  expect_served(volume);
}

TEST(ControlServer, AHostThatNobodyAnswersForIsBusy) {
  const RealVolume volume;
  const auto host = open_host(volume.directory(), RealVolume::options());
  ASSERT_THAT(host, IsOk());
  EXPECT_THAT(open_admin(volume.directory(), RealVolume::options()), FailsWith(ErrorCode::kBusy));
}

TEST(ControlServer, GarbageIsAnsweredWithAnErrorAndTheEnd) {
  const RealVolume volume;
  const auto owner = volume.own();
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    control::Link link = connect(volume);
    Bytes bytes(24 + random() % 100);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    send_raw(link.channel, bytes);
    const auto answer = link.channel.receive({}, {});
    EXPECT_TRUE(!answer.ok() || answer->header.kind == Kind::kError);
    EXPECT_TRUE(eventually([&] { return link.channel.peer_is_gone(); }));
  }
  expect_served(volume);
}

TEST(ControlServer, HalfAFrameAndTheEndIsForgotten) {
  const RealVolume volume;
  const auto owner = volume.own();
  const auto header = control::encode_header(
      {.kind = Kind::kStatus, .request = 1, .body_bytes = 1000, .payload_bytes = 0});
  for (const size_t bytes : {size_t{1}, size_t{23}, size_t{24}}) {
    const control::Link link = connect(volume);
    send_raw(link.channel, std::span(header).first(bytes));
  }
  expect_served(volume);
}

TEST(ControlServer, AFrameThatIsTooLargeIsRefused) {
  const RealVolume volume;
  const auto owner = volume.own();
  control::Link link = connect(volume);
  const auto header = control::encode_header(
      {.kind = Kind::kStatus, .request = 1, .body_bytes = control::kBodyBytesMax + 1});
  send_raw(link.channel, header);
  const auto answer = link.channel.receive({}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(control::decode_error(answer->body).code, ErrorCode::kCorrupt);
}

TEST(ControlServer, AnotherVersionIsToldSo) {
  const RealVolume volume;
  const auto owner = volume.own();
  control::Link link = connect(volume);
  auto header = control::encode_header({.kind = Kind::kStatus, .request = 1});
  header[4] = std::byte{2};
  send_raw(link.channel, header);
  const auto answer = control::await_answer(link, {}, {});
  ASSERT_THAT(answer, FailsWith(ErrorCode::kUnsupported));
  EXPECT_NE(answer.error().detail.find("version"), std::string::npos);
}

TEST(ControlServer, RequestsThatMakeNoSenseAreAnswered) {
  const RealVolume volume;
  const auto owner = volume.own();
  control::Link link = connect(volume);
  EXPECT_THAT(control::call(link, Kind::kHead, {}, {}), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(control::call(link, Kind::kGet, {}, {}), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(control::call(link, static_cast<Kind>(999), {}, {}),
              FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(control::call(link, Kind::kStatus, Bytes(3), {}), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(control::call(link, Kind::kVolumes, {}, {}), IsOk());
}

TEST(ControlServer, TooManyAreToldToComeBack) {
  const RealVolume volume;
  const auto host = *open_host(volume.directory(), RealVolume::options());
  const auto server = ControlServer::start(host, volume.directory(), {.connections_max = 2});
  ASSERT_THAT(server, IsOk());
  control::Link first = connect(volume);
  control::Link second = connect(volume);
  ASSERT_THAT(control::call(first, Kind::kVolumes, {}, {}), IsOk());
  ASSERT_THAT(control::call(second, Kind::kVolumes, {}, {}), IsOk());
  {
    control::Link third = connect(volume);
    const auto refused = control::call(third, Kind::kVolumes, {}, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(refused.error().retryable);
  }
  first.channel = {};
  EXPECT_TRUE(eventually([&] {
    control::Link again = connect(volume);
    return control::call(again, Kind::kVolumes, {}, {}).ok();
  }));
}

TEST(ControlServer, AnOwnerThatEndsLetsItsClientsKnow) {
  const RealVolume volume;
  auto owner = volume.own();
  control::Link link = connect(volume);
  ASSERT_THAT(control::call(link, Kind::kVolumes, {}, {}), IsOk());
  owner.reset();
  const auto lost = control::call(link, Kind::kVolumes, {}, {});
  ASSERT_THAT(lost, FailsWith(ErrorCode::kUnavailable));
  EXPECT_TRUE(lost.error().retryable);
  EXPECT_EQ(link.health, control::Health::kLost);
}

}  // namespace
}  // namespace penstock::volume
