// What a process asks of the one that has a volume: to mount it once more.
#include <unistd.h>

#include <atomic>
#include <future>

#include "volume/control_test_support.h"

namespace penstock::volume {
namespace {

using control::MountAnswer;
using control::MountRequest;

MountRequest request() {
  return {.volume = "v",
          .directory = "/mnt/then",
          .source = "train",
          .at = 12345,
          .uid = 7,
          .access_times = 2,
          .acl = true,
          .no_exec = true,
          .allow_other = true,
          .name_space = 99};
}

TEST(MountBeside, TheOwnerHearsAllOfItAndAnswers) {
  const RealVolume volume;
  std::promise<MountRequest> heard;
  const auto owner = volume.own({.mount_beside = [&](const MountRequest& asked, const auto&) {
    heard.set_value(asked);
    return Result<MountAnswer>(MountAnswer{"v", 4711, 33, "/log"});
  }});
  const Result<MountAnswer> answer = mount_beside(volume.directory(), request(), {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->volume, "v");
  EXPECT_EQ(answer->pid, 4711);
  EXPECT_EQ(answer->version, 33u);
  EXPECT_EQ(answer->log, "/log");
  EXPECT_EQ(control::encode(heard.get_future().get()), control::encode(request()));
}

TEST(MountBeside, ErrorsOfTheMountComeBackAsTheyAre) {
  const RealVolume volume;
  const auto owner = volume.own({.mount_beside = [](const MountRequest&, const auto&) {
    return Result<MountAnswer>(make_error(ErrorCode::kBusy, "v is mounted at /mnt/v"));
  }});
  const Result<MountAnswer> answer = mount_beside(volume.directory(), request(), {});
  ASSERT_THAT(answer, FailsWith(ErrorCode::kBusy));
  EXPECT_EQ(answer.error().detail, "v is mounted at /mnt/v");
}

TEST(MountBeside, WhoServesNoMountsSaysWhoItIs) {
  const RealVolume volume;
  const auto owner = volume.own();
  const Result<MountAnswer> answer = mount_beside(volume.directory(), request(), {});
  ASSERT_THAT(answer, FailsWith(ErrorCode::kUnsupported));
  EXPECT_NE(answer.error().detail.find(std::to_string(::getpid())), std::string::npos);
}

TEST(MountBeside, WithoutAnOwnerItIsUnavailable) {
  const RealVolume volume;
  EXPECT_THAT(mount_beside(volume.directory(), request(), {}), FailsWith(ErrorCode::kUnavailable));
}

TEST(MountBeside, WhoDoesNotWaitAnyMoreIsNotMountedFor) {
  const RealVolume volume;
  std::promise<void> asked;
  std::promise<void> given_up;
  const auto owner =
      volume.own({.mount_beside = [&](const MountRequest&,
                                      const std::stop_token& cancel) -> Result<MountAnswer> {
        asked.set_value();
        if (eventually([&] { return cancel.stop_requested(); })) given_up.set_value();
        return make_error(ErrorCode::kCancelled, "nobody waits");
      }});
  std::stop_source stop;
  const std::jthread client([&] {
    EXPECT_THAT(mount_beside(volume.directory(), request(), stop.get_token()),
                FailsWith(ErrorCode::kCancelled));
  });
  asked.get_future().wait();
  stop.request_stop();
  EXPECT_EQ(given_up.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(MountBeside, AnOwnerThatEndsMeanwhileIsUnavailable) {
  const RealVolume volume;
  std::promise<void> asked;
  auto owner =
      volume.own({.mount_beside = [&](const MountRequest&,
                                      const std::stop_token& cancel) -> Result<MountAnswer> {
        asked.set_value();
        EXPECT_TRUE(eventually([&] { return cancel.stop_requested(); }));
        return make_error(ErrorCode::kCancelled, "this process ends");
      }});
  const std::jthread client([&] {
    EXPECT_THAT(mount_beside(volume.directory(), request(), {}),
                FailsWith(ErrorCode::kUnavailable));
  });
  asked.get_future().wait();
  owner.reset();
}

TEST(MountBeside, StatusSaysWhereItIsMountedNow) {
  const RealVolume volume;
  std::atomic<bool> moved = false;
  const auto owner = volume.own({.mounted_at = [&](std::string_view name) {
    if (name != "v") return std::string();
    return std::string(moved ? "/mnt/other" : "/mnt/v");
  }});
  const auto admin = open_admin(volume.directory(), RealVolume::options());
  ASSERT_THAT(admin, IsOk());
  EXPECT_EQ((*admin)->status("v")->mounted_at, "/mnt/v");
  moved = true;
  EXPECT_EQ((*admin)->status("v")->mounted_at, "/mnt/other");
}

}  // namespace
}  // namespace penstock::volume
