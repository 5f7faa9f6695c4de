// What inodes have beside names and content: times, owners, extended attributes.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, ChangesWhatIsGivenAndNothingElse) {
  const Inode made = file(kRoot, "a");
  const Time time = now();
  Result<Inode> changed = names_->change(made.ino, {.permissions = 04711}, time);
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(changed->mode, S_IFREG | 04711u);
  EXPECT_EQ(changed->ctime, time);
  EXPECT_EQ(changed->mtime, made.mtime);
  EXPECT_EQ(changed->uid, 7u);
  EXPECT_EQ(changed->data_version, made.data_version);
  changed = names_->change(made.ino, {.uid = 1, .gid = 2, .atime = 3, .mtime = -4}, now());
  ASSERT_THAT(changed, IsOk());
  const Inode read = inode(made.ino);
  EXPECT_EQ(read.uid, 1u);
  EXPECT_EQ(read.gid, 2u);
  EXPECT_EQ(read.atime, 3);
  EXPECT_EQ(read.mtime, -4);
  EXPECT_EQ(read.ctime, changed->ctime);
  EXPECT_THAT(names_->change(999, {.uid = 1}, now()), FailsErrno(ENOENT));
  EXPECT_EQ(names_->change(made.ino, {}, now())->ctime, read.ctime);
}

TEST_P(MetaConformance, AtimeAloneMakesNoVersion) {
  const Inode made = file(kRoot, "a");
  const Version before = commit();
  ASSERT_THAT(names_->change(made.ino, {.atime = 77}, now()), IsOk());
  EXPECT_EQ(inode(made.ino).atime, 77);
  EXPECT_EQ(inode(made.ino).ctime, made.ctime);
  EXPECT_EQ(commit(), before);
  open();
  EXPECT_EQ(inode(made.ino).atime, 77);  // Kept all the same.
}

TEST_P(MetaConformance, TruncateCutsAndGrows) {
  const Inode made = file(kRoot, "a");
  write(made.ino, 0, 100);
  write(made.ino, 100, 100);
  const Inode before = inode(made.ino);
  const Time time = now();
  const Result<Inode> cut = names_->change(made.ino, {.size = 150}, time);
  ASSERT_THAT(cut, IsOk());
  EXPECT_EQ(cut->size, 150u);
  EXPECT_EQ(cut->allocated, 150u);
  EXPECT_EQ(cut->mtime, time);
  EXPECT_EQ(cut->ctime, time);
  EXPECT_NE(cut->data_version, before.data_version);
  EXPECT_EQ(layout(*names_, made.ino), "0+100=a@0 100+50=b@0");
  const Time later = now();
  const Result<Inode> same = names_->change(made.ino, {.size = 150}, later);
  EXPECT_EQ(same->mtime, later);  // As ftruncate(2) has it.
  EXPECT_EQ(same->data_version, cut->data_version);
  ASSERT_THAT(names_->change(made.ino, {.size = 1000}, now()), IsOk());
  EXPECT_EQ(layout(*names_, made.ino), "0+100=a@0 100+50=b@0");  // What was cut is not back.
  EXPECT_EQ(*names_->totals(), (Totals{1000, 2}));
  ASSERT_THAT(names_->change(made.ino, {.size = 0}, now()), IsOk());
  EXPECT_EQ(inode(made.ino).allocated, 0u);
  EXPECT_EQ(names_->totals()->bytes, 0u);
  EXPECT_THAT(names_->change(made.ino, {.size = kFileBytesMax + 1}, now()), FailsErrno(EFBIG));
  EXPECT_THAT(names_->change(made.ino, {.size = kFileBytesMax}, now()), IsOk());
  // Sizes have a sum.
  EXPECT_THAT(names_->change(file(kRoot, "b").ino, {.size = 1}, now()), FailsErrno(ENOSPC));
  EXPECT_THAT(names_->change(kRoot, {.size = 1}, now()), FailsErrno(EISDIR));
  EXPECT_THAT(names_->change(make(kRoot, "fifo", S_IFIFO | 0600).ino, {.size = 1}, now()),
              FailsErrno(EINVAL));
  // The same size is no change of the content.
  const uint64_t version = inode(made.ino).data_version;
  ASSERT_THAT(names_->change(made.ino, {.size = kFileBytesMax}, now()), IsOk());
  EXPECT_EQ(inode(made.ino).data_version, version);
  expect_sound();
}

TEST_P(MetaConformance, KeepsExtendedAttributes) {
  const Inode made = file(kRoot, "a");
  const Time time = now();
  const std::string value("\0\xff value", 8);
  ASSERT_THAT(names_->set_xattr(made.ino, "user.b", value, XattrMode::kSet, time), IsOk());
  ASSERT_THAT(names_->set_xattr(made.ino, "user.a", "", XattrMode::kCreate, now()), IsOk());
  EXPECT_EQ(*names_->xattr(made.ino, "user.b"), value);
  EXPECT_EQ(*names_->xattr(made.ino, "user.a"), "");
  EXPECT_THAT(*names_->xattrs(made.ino), ::testing::UnorderedElementsAre("user.a", "user.b"));
  EXPECT_EQ(inode(made.ino).mtime, made.mtime);
  EXPECT_THAT(names_->set_xattr(made.ino, "user.a", "x", XattrMode::kCreate, now()),
              FailsErrno(EEXIST));
  EXPECT_THAT(names_->set_xattr(made.ino, "user.c", "x", XattrMode::kReplace, now()),
              FailsErrno(ENODATA));
  ASSERT_THAT(names_->set_xattr(made.ino, "user.a", "new", XattrMode::kReplace, now()), IsOk());
  EXPECT_EQ(*names_->xattr(made.ino, "user.a"), "new");
  EXPECT_THAT(names_->xattr(made.ino, "user.c"), FailsErrno(ENODATA));
  EXPECT_THAT(names_->remove_xattr(made.ino, "user.c", now()), FailsErrno(ENODATA));
  ASSERT_THAT(names_->remove_xattr(made.ino, "user.a", now()), IsOk());
  EXPECT_THAT(*names_->xattrs(made.ino), ::testing::ElementsAre("user.b"));
  EXPECT_THAT(names_->xattr(999, "user.b"), FailsErrno(ENOENT));
  EXPECT_THAT(names_->xattrs(999), FailsErrno(ENOENT));
  expect_sound();
}

TEST_P(MetaConformance, ExtendedAttributesHaveLimits) {
  const Ino ino = file(kRoot, "a").ino;
  const std::string name(kXattrNameBytesMax, 'n');
  const std::string value(kXattrValueBytesMax, 'v');
  ASSERT_THAT(names_->set_xattr(ino, name, value, XattrMode::kSet, now()), IsOk());
  EXPECT_EQ(*names_->xattr(ino, name), value);
  EXPECT_THAT(names_->set_xattr(ino, name + "n", "", XattrMode::kSet, now()), FailsErrno(ERANGE));
  EXPECT_THAT(names_->set_xattr(ino, "", "", XattrMode::kSet, now()), FailsErrno(ERANGE));
  EXPECT_THAT(names_->set_xattr(ino, "a", value + "v", XattrMode::kSet, now()), FailsErrno(E2BIG));
}

TEST_P(MetaConformance, QuotasAreKept) {
  Settings settings = names_->settings();
  settings.quota = {.bytes = 1000, .inodes = 3};
  ASSERT_THAT(names_->set_settings(settings), IsOk());
  const Ino ino = file(kRoot, "a").ino;
  file(kRoot, "b");
  const auto full = names_->create(kRoot, "c", {.mode = S_IFREG}, now());
  EXPECT_THAT(full, FailsErrno(ENOSPC));
  EXPECT_THAT(full, FailsWith(ErrorCode::kNoSpace));
  EXPECT_FALSE(has(kRoot, "c"));
  write(ino, 0, 1000);
  const Place more = place(1);
  EXPECT_THAT(names_->write(ino, 1000, {&more, 1}, now()), FailsErrno(ENOSPC));
  EXPECT_THAT(names_->change(ino, {.size = 1001}, now()), FailsErrno(ENOSPC));
  EXPECT_THAT(names_->allocate(ino, 0, 1001, true, now()), FailsErrno(ENOSPC));
  EXPECT_THAT(names_->copy_range(ino, 0, ino, 1000, 1, now()), FailsErrno(ENOSPC));
  write(ino, 0, 1000);  // No growth.
  EXPECT_EQ(*names_->totals(), (Totals{1000, 3}));
  ASSERT_THAT(names_->change(ino, {.size = 10}, now()), IsOk());
  EXPECT_THAT(names_->write(ino, 10, {&more, 1}, now()), IsOk());
  ASSERT_THAT(names_->unlink(kRoot, "b", now()), IsOk());
  EXPECT_THAT(names_->create(kRoot, "c", {.mode = S_IFREG}, now()), FailsErrno(ENOSPC));
  ASSERT_THAT(names_->forget((*names_->nameless())[0]), IsOk());
  file(kRoot, "c");
  // One that is lowered below what is there stops growth, and nothing else.
  settings.quota.bytes = 5;
  ASSERT_THAT(names_->set_settings(settings), IsOk());
  EXPECT_THAT(names_->write(ino, 11, {&more, 1}, now()), FailsErrno(ENOSPC));
  EXPECT_THAT(names_->change(ino, {.size = 7}, now()), IsOk());
  expect_sound();
}

}  // namespace penstock::meta
