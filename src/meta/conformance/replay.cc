// Calls that are made again after a crash, as an owner with a journal does.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, TheSameCallsGiveTheSameNumbersAgain) {
  const Ino old = file(kRoot, "old").ino;
  const Place good = place(100);
  Place bad = good;
  bad.offset = kGiB;
  commit();

  // What is refused is in no journal, however late it is.
  const auto stumble = [&] {
    EXPECT_THAT(names_->create(kRoot, "old", {.mode = S_IFREG}, 1), FailsErrno(EEXIST));
    EXPECT_THAT(names_->create(999, "x", {.mode = S_IFREG}, 1), FailsErrno(ENOENT));
    EXPECT_THAT(names_->link(old, kRoot, "old", 1), FailsErrno(EEXIST));
    EXPECT_THAT(names_->write(old, 0, std::vector{good, bad}, 1), FailsWith(ErrorCode::kInvalid));
  };
  const auto live = [&](bool stumbles) {
    std::vector<uint64_t> given;
    for (const std::string name : {"a", "b", "c"}) {
      if (stumbles) stumble();
      const Inode made = file(kRoot, name);
      EXPECT_THAT(names_->write(made.ino, 0, std::vector{good, good}, 1), IsOk());
      EXPECT_THAT(names_->link(made.ino, kRoot, name + "2", 1), IsOk());
      EXPECT_THAT(names_->rename(kRoot, name, kRoot, name + "3", Rename::kReplace, 1), IsOk());
      given.push_back(made.ino);
      for (const Extent& extent : extents(*names_, made.ino)) given.push_back(extent.chunk);
    }
    const auto entries = names_->list(kRoot, 0, 100);
    EXPECT_THAT(entries, IsOk());
    for (const Entry& entry : *entries) given.push_back(entry.cookie);
    return given;
  };
  const std::vector<uint64_t> first = live(true);
  open();
  EXPECT_FALSE(has(kRoot, "a3"));
  EXPECT_EQ(live(false), first);
  expect_sound();
}

TEST_P(MetaConformance, CreateTakesTheNumberThatItIsTold) {
  const auto create = [&](std::string_view name, Ino ino) {
    return names_->create(kRoot, name, {.mode = S_IFREG, .ino = ino}, now());
  };
  const Ino first = file(kRoot, "a").ino;
  for (const Ino ino : {kRoot, first, kInoMax + 1, UINT64_MAX})
    EXPECT_THAT(create("b", ino), FailsWith(ErrorCode::kInvalid)) << ino;
  EXPECT_EQ(create("b", first + 10)->ino, first + 10);
  EXPECT_EQ(names_->lookup(kRoot, "b")->ino, first + 10);
  EXPECT_EQ(file(kRoot, "c").ino, first + 11);
  EXPECT_THAT(create("d", first + 5), FailsWith(ErrorCode::kInvalid));  // Was left out.
  EXPECT_THAT(create("a", first + 20), FailsErrno(EEXIST));             // And takes none.
  EXPECT_EQ(create("d", first + 12)->ino, first + 12);
  commit();
  file(kRoot, "lost");
  open();
  EXPECT_EQ(create("lost", first + 13)->ino, first + 13);
  EXPECT_EQ(create("far", kInoMax)->ino, kInoMax);
  expect_sound();
}

}  // namespace penstock::meta
