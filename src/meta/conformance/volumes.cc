// Volumes as a whole: settings, clones, removal; and calls from many threads.
#include <fmt/core.h>

#include <thread>

#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, SettingsAreKept) {
  Settings settings = test_settings();
  EXPECT_EQ(names_->settings().uuid, settings.uuid);
  EXPECT_EQ(names_->settings().store, settings.store);
  settings.name = "renamed";
  settings.retention = std::chrono::hours(5);
  settings.quota = {10, 20};
  settings.codec = {codec::Codec::kZstd, 7};
  settings.store = "file:/elsewhere";
  settings.block_bytes = 64 * kKiB;
  ASSERT_THAT(names_->set_settings(settings), IsOk());
  commit();
  names_.reset();
  database_.reset();
  database_ = std::move(*bed_->open(std::nullopt));
  EXPECT_THAT(database_->open("train"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(*database_->volumes(), ::testing::ElementsAre("renamed"));
  const Settings read = (*database_->open("renamed"))->settings();
  EXPECT_EQ(read.name, "renamed");
  EXPECT_EQ(read.retention, settings.retention);
  EXPECT_EQ(read.quota.bytes, 10u);
  EXPECT_EQ(read.quota.inodes, 20u);
  EXPECT_EQ(read.codec.codec, codec::Codec::kZstd);
  EXPECT_EQ(read.codec.level, 7);
  EXPECT_EQ(read.store, "file:/blocks");  // As it was made.
  EXPECT_EQ(read.block_bytes, 4 * kMiB);
}

TEST_P(MetaConformance, SettingsThatCannotBeAreRefused) {
  for (const auto& spoil : std::vector<std::function<void(Settings&)>>{
           [](Settings& settings) { settings.name = ""; },
           [](Settings& settings) { settings.name = "a/b"; },
           [](Settings& settings) {
             settings.codec = {codec::Codec::kZstd, 99};
           },
           [](Settings& settings) { settings.retention = Nanoseconds(-1); }}) {
    Settings settings = test_settings();
    spoil(settings);
    EXPECT_THAT(names_->set_settings(settings), FailsWith(ErrorCode::kInvalid));
  }
  Settings settings = test_settings("other");
  settings.block_bytes = 100'000;
  EXPECT_THAT(database_->clone("train", kLive, settings), FailsWith(ErrorCode::kInvalid));
  EXPECT_EQ(names_->settings().name, "train");
}

TEST_P(MetaConformance, AClonesBeginningIsItsSource) {
  const Ino a = file(kRoot, "a").ino;
  const Ino d = directory(kRoot, "d").ino;
  file(d, "inner");
  write(a, 0, 100);
  ASSERT_THAT(names_->set_xattr(a, "user.k", "v", XattrMode::kSet, now()), IsOk());
  const Version version = commit();
  write(a, 0, 50);
  file(kRoot, "later");
  const Ino open_file = file(kRoot, "open").ino;
  write(open_file, 0, 10);
  ASSERT_THAT(names_->unlink(kRoot, "open", now()), IsOk());

  ASSERT_THAT(database_->clone("train", version, test_settings("then")), IsOk());
  ASSERT_THAT(database_->clone("train", kLive, test_settings("now")), IsOk());
  EXPECT_THAT(database_->clone("train", kLive, test_settings("now")),
              FailsWith(ErrorCode::kExists));
  EXPECT_THAT(database_->clone("none", kLive, test_settings("x")), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->clone("train", 999, test_settings("x")), FailsWith(ErrorCode::kNotFound));
  const Version cloned = commit();
  expect_sound();
  open();
  EXPECT_THAT(*database_->volumes(), ::testing::ElementsAre("train", "then", "now"));
  const auto then = std::move(*database_->open("then"));
  const auto now_is = std::move(*database_->open("now"));
  EXPECT_THAT(listed(*then, kRoot), ::testing::ElementsAre("a", "d"));
  EXPECT_EQ(layout(*then, a), "0+100=a@0");
  EXPECT_EQ(*then->xattr(a, "user.k"), "v");
  EXPECT_EQ(*then->totals(), (Totals{100, 4}));
  EXPECT_THAT(listed(*now_is, kRoot), ::testing::ElementsAre("a", "d", "later"));
  EXPECT_EQ(layout(*now_is, a), "0+50=a@0 50+50=b@50");
  EXPECT_EQ(*now_is->totals(), (Totals{100, 5}));
  EXPECT_THAT(*now_is->nameless(), ::testing::IsEmpty());  // Nobody has it open there.
  EXPECT_THAT(then->at(cloned), IsOk());
  EXPECT_THAT(then->at(version), FailsWith(ErrorCode::kNotFound));  // It was not there.

  // From here on each goes its own way.
  ASSERT_THAT(then->unlink(kRoot, "a", now()), IsOk());
  EXPECT_TRUE(has(kRoot, "a"));
  ASSERT_THAT(now_is->create(kRoot, "own", {.mode = S_IFREG}, now()), IsOk());
  EXPECT_FALSE(has(kRoot, "own"));
  expect_sound();
}

TEST_P(MetaConformance, ARemovedVolumeGoesWithItsHistory) {
  const Ino a = file(kRoot, "a").ino;
  for (uint64_t i = 0; i < 30; ++i) write(a, i * 10, 10);
  commit();
  ASSERT_THAT(database_->clone("train", kLive, test_settings("copy")), IsOk());
  commit();
  const auto copy = std::move(*database_->open("copy"));
  ASSERT_THAT(database_->remove("train"), IsOk());
  EXPECT_THAT(database_->remove("train"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->open("train"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(names_->inode(kRoot), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(names_->create(kRoot, "x", {.mode = S_IFREG}, now()),
              FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(*database_->volumes(), ::testing::ElementsAre("copy"));
  commit();
  while (true) {
    expect_sound();
    const Result<Purged> purged = database_->purge(now(), 7);
    ASSERT_THAT(purged, IsOk());
    if (!purged->more) break;
  }
  EXPECT_EQ(extents(*copy, a).size(), 30u);
  EXPECT_EQ((*database_->objects({}, 1))[0].live_bytes, 300u);
  ASSERT_THAT(database_->clone("copy", kLive, test_settings("train")), IsOk());
  ASSERT_THAT(database_->remove("train"), IsOk());
  ASSERT_THAT(database_->remove("copy"), IsOk());
  ASSERT_THAT(database_->purge(now(), 10'000), IsOk());
  EXPECT_EQ((*database_->objects({}, 1))[0].live_bytes, 0u);
  expect_sound();
}

TEST_P(MetaConformance, CallsFromManyThreadsTakeTurns) {
  constexpr int kThreads = 4;
  constexpr int kFiles = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kFiles; ++i) {
        const std::string name = fmt::format("{}-{}", t, i);
        EXPECT_THAT(names_->create(kRoot, name, {.mode = S_IFREG}, 1), IsOk());
        EXPECT_THAT(names_->lookup(kRoot, name), IsOk());
        if (i % 10 == t) {
          EXPECT_THAT(database_->commit({.now = 1}), IsOk());
        }
        if (i % 20 == t) {
          EXPECT_THAT(database_->purge(2, 100), IsOk());
        }
        if (i % 30 == t) (void)database_->pin(database_->last_version());  // May be gone by now.
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inode(kRoot).size, static_cast<uint64_t>(kThreads * kFiles));
  expect_sound();
}

}  // namespace penstock::meta
