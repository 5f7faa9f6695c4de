// Renames, as renameat2(2) has them.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, RenameMovesANameAndItsInodeStays) {
  const Inode made = file(kRoot, "a");
  const Inode other = directory(kRoot, "d");
  const Time time = now();
  const Result<Renamed> renamed =
      names_->rename(kRoot, "a", other.ino, "b", Rename::kReplace, time);
  ASSERT_THAT(renamed, IsOk());
  EXPECT_EQ(renamed->moved.ino, made.ino);
  EXPECT_EQ(renamed->moved.ctime, time);
  EXPECT_EQ(renamed->moved.mtime, made.mtime);
  EXPECT_FALSE(renamed->replaced);
  EXPECT_FALSE(has(kRoot, "a"));
  EXPECT_EQ(names_->lookup(other.ino, "b")->ino, made.ino);
  for (const Ino parent : {kRoot, other.ino}) {
    EXPECT_EQ(inode(parent).mtime, time);
    EXPECT_EQ(inode(parent).ctime, time);
    EXPECT_EQ(inode(parent).size, 1u);
  }
  EXPECT_THAT(names_->rename(kRoot, "a", kRoot, "c", Rename::kReplace, now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->rename(kRoot, ".", kRoot, "c", Rename::kReplace, now()), FailsErrno(EBUSY));
  EXPECT_THAT(names_->rename(kRoot, "d", made.ino, "c", Rename::kReplace, now()),
              FailsErrno(ENOTDIR));
  expect_sound();
}

TEST_P(MetaConformance, RenameReplacesAFile) {
  const Inode made = file(kRoot, "a");
  const Inode old = file(kRoot, "b");
  ASSERT_THAT(names_->link(old.ino, kRoot, "b2", now()), IsOk());
  Result<Renamed> renamed = names_->rename(kRoot, "a", kRoot, "b", Rename::kReplace, now());
  ASSERT_THAT(renamed, IsOk());
  ASSERT_TRUE(renamed->replaced);
  EXPECT_EQ(renamed->replaced->ino, old.ino);
  EXPECT_EQ(renamed->replaced->links, 1u);
  EXPECT_EQ(names_->lookup(kRoot, "b")->ino, made.ino);
  renamed = names_->rename(kRoot, "b", kRoot, "b2", Rename::kReplace, now());
  ASSERT_THAT(renamed, IsOk());
  EXPECT_EQ(renamed->replaced->links, 0u);
  EXPECT_THAT(*names_->nameless(), ::testing::ElementsAre(old.ino));
  EXPECT_EQ(inode(kRoot).size, 1u);
  expect_sound();
}

TEST_P(MetaConformance, RenameOntoItselfDoesNothing) {
  const Inode made = file(kRoot, "a");
  ASSERT_THAT(names_->link(made.ino, kRoot, "b", now()), IsOk());
  const Version before = commit();
  const Inode root = inode(kRoot);
  for (const char* name : {"a", "b"}) {
    const auto renamed = names_->rename(kRoot, "a", kRoot, name, Rename::kReplace, now());
    ASSERT_THAT(renamed, IsOk());
    EXPECT_EQ(renamed->moved.links, 2u);
  }
  EXPECT_TRUE(has(kRoot, "a"));
  EXPECT_TRUE(has(kRoot, "b"));
  EXPECT_EQ(inode(kRoot).mtime, root.mtime);
  EXPECT_EQ(commit(), before);
}

TEST_P(MetaConformance, RenameNoReplaceKeepsWhatIsThere) {
  file(kRoot, "a");
  file(kRoot, "b");
  EXPECT_THAT(names_->rename(kRoot, "a", kRoot, "b", Rename::kNoReplace, now()),
              FailsErrno(EEXIST));
  EXPECT_THAT(names_->rename(kRoot, "a", kRoot, "a", Rename::kNoReplace, now()),
              FailsErrno(EEXIST));
  EXPECT_THAT(names_->rename(kRoot, "a", kRoot, "c", Rename::kNoReplace, now()), IsOk());
  EXPECT_THAT(listed(*names_, kRoot), ::testing::UnorderedElementsAre("b", "c"));
  expect_sound();
}

TEST_P(MetaConformance, RenameExchangesWhateverIsThere) {
  const Inode made = file(kRoot, "a");
  const Inode outer = directory(kRoot, "outer");
  const Inode inner = directory(outer.ino, "inner");
  const auto renamed = names_->rename(kRoot, "a", outer.ino, "inner", Rename::kExchange, now());
  ASSERT_THAT(renamed, IsOk());
  EXPECT_EQ(renamed->moved.ino, made.ino);
  EXPECT_EQ(renamed->replaced->ino, inner.ino);
  EXPECT_EQ(names_->lookup(kRoot, "a")->ino, inner.ino);
  EXPECT_EQ(names_->lookup(outer.ino, "inner")->ino, made.ino);
  EXPECT_EQ(names_->lookup(inner.ino, "..")->ino, kRoot);
  EXPECT_EQ(inode(outer.ino).links, 2u);
  EXPECT_EQ(inode(kRoot).links, 4u);
  EXPECT_THAT(names_->rename(kRoot, "a", kRoot, "none", Rename::kExchange, now()),
              FailsErrno(ENOENT));
  expect_sound();
  ASSERT_THAT(names_->rename(kRoot, "a", kRoot, "outer", Rename::kExchange, now()), IsOk());
  EXPECT_EQ(names_->lookup(kRoot, "outer")->ino, inner.ino);
  expect_sound();
}

TEST_P(MetaConformance, RenameMovesDirectories) {
  const Inode a = directory(kRoot, "a");
  const Inode b = directory(kRoot, "b");
  const Inode child = directory(a.ino, "child");
  file(child.ino, "f");
  ASSERT_THAT(names_->rename(a.ino, "child", b.ino, "moved", Rename::kReplace, now()), IsOk());
  EXPECT_EQ(names_->lookup(child.ino, "..")->ino, b.ino);
  EXPECT_EQ(inode(a.ino).links, 2u);
  EXPECT_EQ(inode(b.ino).links, 3u);
  expect_sound();
  // Over an empty one, but not over a full one, and not across types.
  const Inode empty = directory(kRoot, "empty");
  file(kRoot, "f");
  EXPECT_THAT(names_->rename(kRoot, "empty", b.ino, "moved", Rename::kReplace, now()),
              FailsErrno(ENOTEMPTY));
  EXPECT_THAT(names_->rename(kRoot, "f", kRoot, "empty", Rename::kReplace, now()),
              FailsErrno(EISDIR));
  EXPECT_THAT(names_->rename(kRoot, "empty", kRoot, "f", Rename::kReplace, now()),
              FailsErrno(ENOTDIR));
  const auto renamed = names_->rename(b.ino, "moved", kRoot, "empty", Rename::kReplace, now());
  ASSERT_THAT(renamed, IsOk());
  EXPECT_EQ(renamed->replaced->ino, empty.ino);
  EXPECT_EQ(renamed->replaced->links, 0u);
  EXPECT_EQ(names_->lookup(kRoot, "empty")->ino, child.ino);
  EXPECT_EQ(inode(kRoot).links, 5u);
  expect_sound();
}

TEST_P(MetaConformance, ADirectoryNeverGoesBelowItself) {
  const Inode a = directory(kRoot, "a");
  const Inode b = directory(a.ino, "b");
  const Inode c = directory(b.ino, "c");
  for (const Ino into : {a.ino, b.ino, c.ino}) {
    EXPECT_THAT(names_->rename(kRoot, "a", into, "x", Rename::kReplace, now()), FailsErrno(EINVAL));
  }
  EXPECT_THAT(names_->rename(kRoot, "a", b.ino, "c", Rename::kExchange, now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->rename(b.ino, "c", kRoot, "a", Rename::kExchange, now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->rename(a.ino, "b", kRoot, "a", Rename::kReplace, now()),
              FailsErrno(ENOTEMPTY));
  EXPECT_THAT(names_->rename(b.ino, "c", kRoot, "c", Rename::kReplace, now()), IsOk());
  expect_sound();
}

}  // namespace penstock::meta
