// Commits, and the past.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, CommitsAreNumberedAndTimed) {
  const Version first = database_->last_version();
  EXPECT_GE(first, 1u);
  file(kRoot, "a");
  const Result<Version> second = database_->commit({.now = 5'000 * kSecond});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(*second, first + 1);
  EXPECT_EQ(database_->last_version(), *second);
  EXPECT_EQ(*database_->time_of(*second), 5'000 * kSecond);
  EXPECT_EQ(*database_->commit({.now = 6'000 * kSecond}), *second);  // Nothing changed.
  EXPECT_THAT(database_->time_of(*second + 1), FailsWith(ErrorCode::kNotFound));
  file(kRoot, "b");
  const Version third =
      *database_->commit({.now = 4'000 * kSecond});  // Clocks go back, versions do not.
  EXPECT_EQ(*database_->time_of(third), 5'000 * kSecond);
  EXPECT_EQ(*database_->version_at(5'000 * kSecond), third);
  EXPECT_EQ(*database_->version_at(5'000 * kSecond - 1), first);
  EXPECT_EQ(*database_->version_at(INT64_MAX), third);
  EXPECT_THAT(database_->version_at(0), FailsWith(ErrorCode::kNotFound));
}

TEST_P(MetaConformance, WhatWasNotCommittedIsLost) {
  file(kRoot, "a");
  commit();
  file(kRoot, "b");
  EXPECT_TRUE(has(kRoot, "b"));
  open();
  EXPECT_TRUE(has(kRoot, "a"));
  EXPECT_FALSE(has(kRoot, "b"));
  EXPECT_EQ(names_->totals()->inodes, 2u);
  expect_sound();
}

TEST_P(MetaConformance, TheJournalPositionIsKept) {
  EXPECT_EQ(database_->journal().sequence, 0u);
  file(kRoot, "a");
  const Version version = *database_->commit({.now = now(), .journal = {7}});
  EXPECT_EQ(database_->journal().sequence, 7u);
  EXPECT_EQ(*database_->commit({.now = now(), .journal = {9}}), version);  // Without a change.
  open();
  EXPECT_EQ(database_->journal().sequence, 9u);
  ASSERT_THAT(database_->commit({.now = now(), .journal = {3}}), IsOk());
  EXPECT_EQ(database_->journal().sequence, 9u);  // Never back.
}

TEST_P(MetaConformance, SessionsAreNeverGivenTwice) {
  uint32_t last = database_->session();
  for (int i = 0; i < 3; ++i) {
    open();
    EXPECT_GT(database_->session(), last);
    last = database_->session();
  }
}

TEST_P(MetaConformance, NumbersOfInodesAreNeverGivenTwice) {
  const Inode made = file(kRoot, "a");
  ASSERT_THAT(names_->unlink(kRoot, "a", now()), IsOk());
  ASSERT_THAT(names_->forget(made.ino), IsOk());
  commit();
  open();
  const Inode other = file(kRoot, "a");
  EXPECT_GT(other.ino, made.ino);
  EXPECT_NE(other.data_version, made.data_version);
}

TEST_P(MetaConformance, APastVersionStaysAsItWas) {
  const Inode a = file(kRoot, "a");
  const Inode d = directory(kRoot, "d");
  const Ino link = names_->create(kRoot, "l", {.mode = S_IFLNK, .target = "t"}, now())->ino;
  file(d.ino, "x");
  write(a.ino, 0, 100);
  ASSERT_THAT(names_->set_xattr(a.ino, "user.k", "old", XattrMode::kSet, now()), IsOk());
  const Version version = commit();
  const Inode before = inode(a.ino);

  write(a.ino, 50, 100);
  ASSERT_THAT(names_->set_xattr(a.ino, "user.k", "new", XattrMode::kSet, now()), IsOk());
  ASSERT_THAT(names_->set_xattr(a.ino, "user.n", "new", XattrMode::kSet, now()), IsOk());
  ASSERT_THAT(names_->rename(d.ino, "x", kRoot, "y", Rename::kReplace, now()), IsOk());
  ASSERT_THAT(names_->remove_directory(kRoot, "d", now()), IsOk());
  ASSERT_THAT(names_->forget(d.ino), IsOk());
  ASSERT_THAT(names_->unlink(kRoot, "l", now()), IsOk());
  ASSERT_THAT(names_->forget(link), IsOk());
  const std::unique_ptr<View> uncommitted = at(version);
  EXPECT_EQ(layout(*uncommitted, a.ino), "0+100=a@0");
  commit();

  const std::unique_ptr<View> past = at(version);
  EXPECT_EQ(past->version(), version);
  EXPECT_EQ(listed(*past, kRoot), (std::vector<std::string>{"a", "d", "l"}));
  EXPECT_EQ(listed(*past, d.ino), (std::vector<std::string>{"x"}));
  EXPECT_EQ(past->lookup(kRoot, "a")->size, 100u);
  EXPECT_EQ(past->inode(a.ino)->mtime, before.mtime);
  EXPECT_EQ(past->lookup(d.ino, "..")->ino, kRoot);
  EXPECT_EQ(layout(*past, a.ino), "0+100=a@0");
  EXPECT_EQ(*past->xattr(a.ino, "user.k"), "old");
  EXPECT_THAT(*past->xattrs(a.ino), ::testing::ElementsAre("user.k"));
  EXPECT_EQ(*past->symlink(link), "t");
  EXPECT_EQ(*past->totals(), (Totals{100, 5}));
  EXPECT_THAT(past->lookup(kRoot, "y"), FailsErrno(ENOENT));
  EXPECT_EQ(names_->totals()->bytes, 150u);
  EXPECT_THAT(names_->at(version + 2), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(names_->at(kLive), FailsWith(ErrorCode::kNotFound));
  expect_sound();
}

TEST_P(MetaConformance, PastZerosAreFoundWhereverTheyBegin) {
  const Ino ino = file(kRoot, "a").ino;
  ASSERT_THAT(names_->allocate(ino, 10, kTiB, true, now()), IsOk());
  const Version version = commit();
  ASSERT_THAT(names_->change(ino, {.size = 0}, now()), IsOk());
  write(ino, kTiB / 2, 100);
  commit();
  const std::unique_ptr<View> past = at(version);
  EXPECT_EQ(layout(*past, ino, kTiB / 2, 1), "10+1099511627776=0");
  EXPECT_EQ(layout(*past, ino, 11, 1), "10+1099511627776=0");
  EXPECT_EQ(layout(*past, ino, 0, 10), "");
}

TEST_P(MetaConformance, WithoutRetentionOnlyTheLastVersionIsKept) {
  file(kRoot, "a");
  const Version first = commit();
  file(kRoot, "b");
  const Version last = commit();
  EXPECT_THAT(names_->at(first), IsOk());
  const std::unique_ptr<View> view = at(first);
  const Result<Purged> purged = database_->purge(now(), 1000);
  ASSERT_THAT(purged, IsOk());
  EXPECT_GT(purged->rows, 0u);
  EXPECT_FALSE(purged->more);
  EXPECT_THAT(names_->at(first), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(view->inode(kRoot), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(view->totals(), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->pin(first), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->version_at(*database_->time_of(last) - 1),
              FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(listed(*at(last), kRoot).size(), 2u);
  EXPECT_EQ(*at(last)->totals(), (Totals{0, 3}));
  EXPECT_EQ(commit(), last);  // Purging is no change of what is there.
  open();
  EXPECT_THAT(names_->at(first), FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(database_->purge(now(), 1000)->rows, 0u);
  expect_sound();
}

TEST_P(MetaConformance, RetentionKeepsWhatWasSeenSince) {
  Settings settings = names_->settings();
  settings.retention = std::chrono::seconds(100);
  ASSERT_THAT(names_->set_settings(settings), IsOk());
  std::vector<Version> versions;
  for (int i = 0; i < 10; ++i) {
    file(kRoot, std::to_string(i));
    versions.push_back(*database_->commit({.now = (10'000 + i * 50) * kSecond}));
  }
  ASSERT_THAT(database_->purge(10'460 * kSecond, 1000), IsOk());
  // What was there at 10,360 is version 7, of 10,350.
  EXPECT_THAT(names_->at(versions[6]), FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(listed(*at(versions[7]), kRoot).size(), 8u);
  settings.retention = std::nullopt;
  ASSERT_THAT(names_->set_settings(settings), IsOk());
  ASSERT_THAT(database_->purge(90'000 * kSecond, 1000), IsOk());
  EXPECT_EQ(listed(*at(versions[7]), kRoot).size(), 8u);
  expect_sound();
}

TEST_P(MetaConformance, PinsAndSnapshotsKeepVersions) {
  file(kRoot, "a");
  const Version first = commit();
  file(kRoot, "b");
  const Version second = commit();
  ASSERT_THAT(names_->unlink(kRoot, "a", now()), IsOk());
  commit();
  ASSERT_THAT(database_->make_snapshot("train", "before", second), IsOk());
  EXPECT_THAT(database_->make_snapshot("train", "before", second), FailsWith(ErrorCode::kExists));
  EXPECT_THAT(database_->make_snapshot("train", "", second), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(database_->make_snapshot("train", "x", 999), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->make_snapshot("none", "x", second), FailsWith(ErrorCode::kNotFound));
  {
    const auto pin = database_->pin(first);
    ASSERT_THAT(pin, IsOk());
    EXPECT_EQ((*pin)->version(), first);
    ASSERT_THAT(database_->purge(now(), 1000), IsOk());
    EXPECT_EQ(listed(*at(first), kRoot), (std::vector<std::string>{"a"}));
  }
  ASSERT_THAT(database_->purge(now(), 1000), IsOk());
  EXPECT_THAT(names_->at(first), FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(listed(*at(second), kRoot).size(), 2u);
  commit();
  open();
  const auto snapshots = database_->snapshots("train");
  ASSERT_THAT(snapshots, IsOk());
  ASSERT_EQ(snapshots->size(), 1u);
  EXPECT_EQ((*snapshots)[0].name, "before");
  EXPECT_EQ((*snapshots)[0].version, second);
  EXPECT_EQ((*snapshots)[0].time, *database_->time_of(second));
  ASSERT_THAT(database_->remove_snapshot("train", "before"), IsOk());
  EXPECT_THAT(database_->remove_snapshot("train", "before"), FailsWith(ErrorCode::kNotFound));
  ASSERT_THAT(database_->purge(now(), 1000), IsOk());
  EXPECT_THAT(names_->at(second), FailsWith(ErrorCode::kNotFound));
  expect_sound();
}

TEST_P(MetaConformance, PurgingGoesInSmallSteps) {
  for (int i = 0; i < 50; ++i) {
    file(kRoot, std::to_string(i));
    commit();
  }
  uint64_t rows = 0;
  int calls = 0;
  while (true) {
    const Result<Purged> purged = database_->purge(now(), 10);
    ASSERT_THAT(purged, IsOk());
    EXPECT_LE(purged->rows, 10u);
    rows += purged->rows;
    ++calls;
    if (!purged->more) break;
  }
  EXPECT_GT(rows, 50u);
  EXPECT_GT(calls, 5);
  expect_sound();
}

}  // namespace penstock::meta
