// Names: made, found, listed, linked, removed.
#include <fmt/core.h>

#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, ANewVolumeHasARootAndNothingElse) {
  const Inode root = inode(kRoot);
  EXPECT_TRUE(root.is_directory());
  EXPECT_EQ(root.links, 2u);
  EXPECT_EQ(root.size, 0u);
  EXPECT_THAT(listed(*names_, kRoot), ::testing::IsEmpty());
  EXPECT_EQ(*names_->totals(), (Totals{0, 1}));
  EXPECT_EQ(names_->version(), kLive);
  expect_sound();
}

TEST_P(MetaConformance, MakesEveryKindOfInode) {
  const struct {
    const char* name;
    uint32_t mode;
  } kinds[] = {{"file", S_IFREG | 0640}, {"directory", S_IFDIR | 0750},
               {"fifo", S_IFIFO | 0600}, {"socket", S_IFSOCK | 0600},
               {"char", S_IFCHR | 0666}, {"block", S_IFBLK | 0660}};
  for (const auto& kind : kinds) {
    const Time time = now();
    const NewInode wanted{.mode = kind.mode, .uid = 3, .gid = 4, .rdev = 0x501};
    const Result<Inode> made = names_->create(kRoot, kind.name, wanted, time);
    ASSERT_THAT(made, IsOk()) << kind.name;
    const Result<Inode> found = names_->lookup(kRoot, kind.name);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->ino, made->ino);
    EXPECT_EQ(found->mode, kind.mode);
    EXPECT_EQ(found->uid, 3u);
    EXPECT_EQ(found->gid, 4u);
    EXPECT_EQ(found->links, S_ISDIR(kind.mode) ? 2u : 1u);
    EXPECT_EQ(found->rdev, S_ISCHR(kind.mode) || S_ISBLK(kind.mode) ? 0x501u : 0u);
    EXPECT_EQ(found->mtime, time);
    EXPECT_EQ(found->ctime, time);
    EXPECT_EQ(found->atime, time);
    const Inode root = inode(kRoot);
    EXPECT_EQ(root.mtime, time);
    EXPECT_EQ(root.ctime, time);
  }
  EXPECT_EQ(inode(kRoot).size, 6u);
  EXPECT_EQ(inode(kRoot).links, 3u);
  EXPECT_EQ(names_->totals()->inodes, 7u);
  expect_sound();
}

TEST_P(MetaConformance, MakesSymbolicLinks) {
  const NewInode wanted{.mode = S_IFLNK | 0777, .target = "../some where/else"};
  const Result<Inode> made = names_->create(kRoot, "link", wanted, now());
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->size, wanted.target.size());
  EXPECT_EQ(*names_->symlink(made->ino), wanted.target);
  EXPECT_THAT(names_->symlink(kRoot), FailsErrno(EINVAL));
  EXPECT_THAT(names_->create(kRoot, "empty", {.mode = S_IFLNK | 0777}, now()), FailsErrno(ENOENT));
  const NewInode far{.mode = S_IFLNK | 0777, .target = std::string(4096, 'x')};
  EXPECT_THAT(names_->create(kRoot, "far", far, now()), FailsErrno(ENAMETOOLONG));
  EXPECT_EQ(names_->totals()->bytes, 0u);
  expect_sound();
}

TEST_P(MetaConformance, ANameIsMadeOnce) {
  const Inode made = file(kRoot, "a");
  EXPECT_THAT(names_->create(kRoot, "a", {.mode = S_IFREG | 0644}, now()), FailsErrno(EEXIST));
  EXPECT_THAT(names_->create(kRoot, ".", {.mode = S_IFREG | 0644}, now()), FailsErrno(EEXIST));
  EXPECT_THAT(names_->create(kRoot, "..", {.mode = S_IFREG | 0644}, now()), FailsErrno(EEXIST));
  EXPECT_THAT(names_->create(made.ino, "b", {.mode = S_IFREG}, now()), FailsErrno(ENOTDIR));
  EXPECT_THAT(names_->create(999, "b", {.mode = S_IFREG}, now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->create(kRoot, "b", {.mode = 0644}, now()), FailsErrno(EINVAL));
  EXPECT_EQ(inode(kRoot).size, 1u);
  expect_sound();
}

TEST_P(MetaConformance, NamesAreAnyBytes) {
  std::vector<std::string> names = {
      std::string(kNameBytesMax, 'n'), "\xff\xfe", " ", "a\nb", "...", "ä", "A", "a"};
  std::string all;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/') all.push_back(static_cast<char>(byte));
  }
  names.push_back(all);
  for (const std::string& name : names) file(kRoot, name);
  EXPECT_EQ(listed(*names_, kRoot), names);
  for (const std::string& name : names) EXPECT_TRUE(has(kRoot, name));
  const NewInode wanted{.mode = S_IFREG};
  const std::string long_name(kNameBytesMax + 1, 'n');
  EXPECT_THAT(names_->create(kRoot, long_name, wanted, now()), FailsErrno(ENAMETOOLONG));
  EXPECT_THAT(names_->lookup(kRoot, long_name), FailsErrno(ENAMETOOLONG));
  EXPECT_THAT(names_->create(kRoot, "", wanted, now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->create(kRoot, "a/b", wanted, now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->create(kRoot, std::string("a\0b", 3), wanted, now()), FailsErrno(EINVAL));
}

TEST_P(MetaConformance, DotsLeadWhereTheyShould) {
  const Inode outer = directory(kRoot, "outer");
  const Inode inner = directory(outer.ino, "inner");
  EXPECT_EQ(names_->lookup(inner.ino, ".")->ino, inner.ino);
  EXPECT_EQ(names_->lookup(inner.ino, "..")->ino, outer.ino);
  EXPECT_EQ(names_->lookup(kRoot, "..")->ino, kRoot);
  EXPECT_THAT(names_->lookup(file(kRoot, "f").ino, "."), FailsErrno(ENOTDIR));
  EXPECT_THAT(names_->lookup(kRoot, "missing"), FailsErrno(ENOENT));
  EXPECT_THAT(names_->lookup(inode(kRoot).ino, "missing"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(names_->lookup(names_->lookup(kRoot, "f")->ino, "x"), FailsErrno(ENOTDIR));
}

TEST_P(MetaConformance, SetgidOfADirectoryIsInherited) {
  const Inode shared = make(kRoot, "shared", S_IFDIR | S_ISGID | 0775);
  ASSERT_THAT(names_->change(shared.ino, {.gid = 55}, now()), IsOk());
  EXPECT_EQ(file(shared.ino, "f").gid, 55u);
  const Inode inner = directory(shared.ino, "d");
  EXPECT_EQ(inner.gid, 55u);
  EXPECT_EQ(inner.mode & S_ISGID, static_cast<uint32_t>(S_ISGID));
  EXPECT_EQ(inode(names_->lookup(shared.ino, "f")->ino).mode & S_ISGID, 0u);
}

TEST_P(MetaConformance, ListsInPagesInTheOrderOfMaking) {
  const Inode other = directory(kRoot, "other");
  std::vector<std::string> made;
  for (int i = 0; i < 100; ++i) {
    made.push_back(fmt::format("name-{}", (i * 37) % 100));
    file(other.ino, made.back());
    file(kRoot, fmt::format("beside-{}", i));
  }
  std::vector<std::string> seen;
  uint64_t cookie = 0;
  while (true) {
    const auto page = names_->list(other.ino, cookie, 7);
    ASSERT_THAT(page, IsOk());
    if (page->empty()) break;
    for (const Entry& entry : *page) {
      EXPECT_GT(entry.cookie, cookie);
      cookie = entry.cookie;
      EXPECT_EQ(names_->lookup(other.ino, entry.name)->ino, entry.ino);
      EXPECT_TRUE(S_ISREG(entry.mode));
      seen.push_back(entry.name);
    }
    // Behind us, and in front: neither disturbs the rest.
    if (cookie != 0 && seen.size() == 14) {
      ASSERT_THAT(names_->unlink(other.ino, seen[3], now()), IsOk());
    }
  }
  EXPECT_EQ(seen, made);
  EXPECT_THAT(names_->list(names_->lookup(other.ino, made[0])->ino, 0, 1), FailsErrno(ENOTDIR));
  EXPECT_TRUE(names_->list(kRoot, UINT64_MAX, 5)->empty());
}

TEST_P(MetaConformance, WhatIsMadeLaterHasALargerCookie) {
  const Inode other = directory(kRoot, "other");
  file(kRoot, "before");
  const uint64_t last = names_->last_cookie();
  EXPECT_LE(names_->list(kRoot, 0, 9)->back().cookie, last);
  file(other.ino, "after");
  ASSERT_THAT(names_->rename(kRoot, "before", other.ino, "moved", Rename::kReplace, now()), IsOk());
  const auto later = names_->list(other.ino, 0, 9);
  ASSERT_EQ(later->size(), 2u);
  for (const Entry& entry : *later) EXPECT_GT(entry.cookie, last);
}

TEST_P(MetaConformance, ListingsEndThoughWhatTheyShowIsRenamed) {
  for (int i = 0; i < 20; ++i) file(kRoot, fmt::format("name-{}", i));
  size_t seen = 0;
  uint64_t cookie = 0;
  while (seen <= 20) {
    const auto page = names_->list(kRoot, cookie, 3);
    ASSERT_THAT(page, IsOk());
    if (page->empty()) break;
    for (const Entry& entry : *page) {
      ++seen;
      cookie = entry.cookie;
      ASSERT_THAT(names_->rename(kRoot, entry.name, kRoot, "aside", Rename::kReplace, now()),
                  IsOk());
      ASSERT_THAT(names_->rename(kRoot, "aside", kRoot, entry.name, Rename::kReplace, now()),
                  IsOk());
    }
  }
  EXPECT_EQ(seen, 20u);
}

TEST_P(MetaConformance, ANameThatIsReplacedStaysWhereItWasInListings) {
  file(kRoot, "first");
  file(kRoot, "second");
  file(kRoot, "third");
  ASSERT_THAT(names_->rename(kRoot, "third", kRoot, "first", Rename::kReplace, now()), IsOk());
  const auto all = names_->list(kRoot, 0, 9);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->front().name, "first");
  expect_sound();
}

TEST_P(MetaConformance, HardLinksAreNamesOfOneInode) {
  const Inode made = file(kRoot, "a");
  const Inode other = directory(kRoot, "d");
  const Time time = now();
  const Result<Inode> linked = names_->link(made.ino, other.ino, "b", time);
  ASSERT_THAT(linked, IsOk());
  EXPECT_EQ(linked->links, 2u);
  EXPECT_EQ(linked->ctime, time);
  EXPECT_EQ(linked->mtime, made.mtime);
  EXPECT_EQ(inode(other.ino).mtime, time);
  EXPECT_EQ(names_->lookup(other.ino, "b")->ino, made.ino);
  EXPECT_THAT(names_->link(made.ino, other.ino, "b", now()), FailsErrno(EEXIST));
  EXPECT_THAT(names_->link(other.ino, kRoot, "d2", now()), FailsErrno(EPERM));
  EXPECT_THAT(names_->link(999, kRoot, "c", now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->link(made.ino, made.ino, "c", now()), FailsErrno(ENOTDIR));
  EXPECT_EQ(names_->unlink(kRoot, "a", now())->inode.links, 1u);
  EXPECT_THAT(names_->forget(made.ino), FailsErrno(EBUSY));
  EXPECT_EQ(names_->unlink(other.ino, "b", now())->inode.links, 0u);
  EXPECT_THAT(names_->link(made.ino, kRoot, "c", now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->forget(made.ino), IsOk());
  EXPECT_THAT(names_->inode(made.ino), FailsErrno(ENOENT));
  EXPECT_THAT(names_->forget(made.ino), FailsErrno(ENOENT));
  expect_sound();
}

TEST_P(MetaConformance, UnlinkedFilesLiveUntilForgotten) {
  const Inode made = file(kRoot, "a");
  write(made.ino, 0, 100);
  const Time time = now();
  const Result<Removed> removed = names_->unlink(kRoot, "a", time);
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->inode.ctime, time);
  EXPECT_EQ(inode(kRoot).mtime, time);
  EXPECT_FALSE(has(kRoot, "a"));
  EXPECT_THAT(*names_->nameless(), ::testing::ElementsAre(made.ino));
  write(made.ino, 50, 100);  // Whoever has it open still writes.
  EXPECT_EQ(names_->totals()->bytes, 150u);
  commit();
  open();  // Whoever had it open is gone.
  EXPECT_THAT(*names_->nameless(), ::testing::ElementsAre(made.ino));
  ASSERT_THAT(names_->forget(made.ino), IsOk());
  EXPECT_THAT(*names_->nameless(), ::testing::IsEmpty());
  EXPECT_EQ(*names_->totals(), (Totals{0, 1}));
  expect_sound();
}

TEST_P(MetaConformance, DirectoriesAreRemovedWhenEmpty) {
  const Inode outer = directory(kRoot, "outer");
  directory(outer.ino, "inner");
  file(kRoot, "f");
  EXPECT_EQ(inode(outer.ino).links, 3u);
  EXPECT_THAT(names_->remove_directory(kRoot, "outer", now()), FailsErrno(ENOTEMPTY));
  EXPECT_THAT(names_->remove_directory(kRoot, "f", now()), FailsErrno(ENOTDIR));
  EXPECT_THAT(names_->remove_directory(kRoot, "none", now()), FailsErrno(ENOENT));
  EXPECT_THAT(names_->remove_directory(kRoot, ".", now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->remove_directory(outer.ino, "..", now()), FailsErrno(ENOTEMPTY));
  EXPECT_THAT(names_->unlink(kRoot, "outer", now()), FailsErrno(EISDIR));
  ASSERT_THAT(names_->remove_directory(outer.ino, "inner", now()), IsOk());
  EXPECT_EQ(inode(outer.ino).links, 2u);
  const Result<Removed> removed = names_->remove_directory(kRoot, "outer", now());
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->inode.links, 0u);
  EXPECT_EQ(inode(kRoot).links, 2u);
  // It may still be somebody's working directory.
  EXPECT_THAT(names_->create(outer.ino, "x", {.mode = S_IFREG}, now()), FailsErrno(ENOENT));
  EXPECT_TRUE(names_->list(outer.ino, 0, 10)->empty());
  expect_sound();
}

TEST_P(MetaConformance, AFileHasNoMoreLinksThanAllowed) {
  const Inode made = file(kRoot, "a");
  const Inode other = directory(kRoot, "d");
  for (size_t i = 1; i < kLinksMax; ++i)
    ASSERT_THAT(names_->link(made.ino, other.ino, std::to_string(i), 1), IsOk());
  EXPECT_THAT(names_->link(made.ino, other.ino, "one more", 1), FailsErrno(EMLINK));
  EXPECT_EQ(inode(made.ino).links, kLinksMax);
}

TEST_P(MetaConformance, ALargeDirectoryIsListedInPages) {
  constexpr size_t kFiles = 100'000;
  const Inode large = directory(kRoot, "large");
  for (size_t i = 0; i < kFiles; ++i)
    ASSERT_THAT(names_->create(large.ino, fmt::format("file-{}", i), {.mode = S_IFREG}, 1), IsOk());
  commit();
  EXPECT_EQ(inode(large.ino).size, kFiles);
  const std::unique_ptr<View> past = at(database_->last_version());
  for (View* view : {static_cast<View*>(names_.get()), past.get()}) {
    size_t seen = 0;
    for (uint64_t cookie = 0;;) {
      const auto page = view->list(large.ino, cookie, 1000);
      ASSERT_THAT(page, IsOk());
      if (page->empty()) break;
      for (const Entry& entry : *page) ASSERT_EQ(entry.name, fmt::format("file-{}", seen++));
      cookie = page->back().cookie;
    }
    EXPECT_EQ(seen, kFiles);
  }
}

}  // namespace penstock::meta
