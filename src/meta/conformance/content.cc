// What files hold.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, WritesPutChunksOneAfterTheOther) {
  const Inode made = file(kRoot, "a");
  const std::vector<Place> chunks = {place(100), place(50)};
  const Time time = now();
  const Result<Inode> written = names_->write(made.ino, 1000, chunks, time);
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(written->size, 1150u);
  EXPECT_EQ(written->allocated, 150u);
  EXPECT_EQ(written->mtime, time);
  EXPECT_EQ(written->ctime, time);
  EXPECT_NE(written->data_version, made.data_version);
  const std::vector<Extent> found = extents(*names_, made.ino);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].place, chunks[0]);
  EXPECT_EQ(found[1].place, chunks[1]);
  EXPECT_EQ(layout(*names_, made.ino), "1000+100=a@0 1100+50=b@0");
  EXPECT_EQ(*names_->totals(), (Totals{1150, 2}));
  EXPECT_EQ(names_->write(made.ino, 0, {}, now())->mtime, time);  // Nothing, of nothing.
  expect_sound();
}

TEST_P(MetaConformance, WritesTakeThePlaceOfWhatWasThere) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 100);
  write(ino, 40, 20);
  EXPECT_EQ(layout(*names_, ino), "0+40=a@0 40+20=b@0 60+40=a@60");
  EXPECT_EQ(inode(ino).allocated, 100u);
  commit();
  write(ino, 30, 40);
  EXPECT_EQ(layout(*names_, ino), "0+30=a@0 30+40=b@0 70+30=a@70");
  write(ino, 0, 30);
  write(ino, 90, 110);
  EXPECT_EQ(layout(*names_, ino), "0+30=a@0 30+40=b@0 70+20=c@70 90+110=d@0");
  EXPECT_EQ(inode(ino).allocated, 200u);
  EXPECT_EQ(inode(ino).size, 200u);
  expect_sound();
}

TEST_P(MetaConformance, ExtentsThatTouchARangeAreFoundWhole) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 10);
  write(ino, 10, 10);
  write(ino, 40, 10);
  EXPECT_EQ(layout(*names_, ino, 5, 1), "0+10=a@0");
  EXPECT_EQ(layout(*names_, ino, 9, 2), "0+10=a@0 10+10=b@0");
  EXPECT_EQ(layout(*names_, ino, 10, 10), "10+10=a@0");
  EXPECT_EQ(layout(*names_, ino, 20, 20), "");
  EXPECT_EQ(layout(*names_, ino, 19, 22), "10+10=a@0 40+10=b@0");
  EXPECT_EQ(layout(*names_, ino, 5, 0), "");
  EXPECT_EQ(layout(*names_, ino, 50, UINT64_MAX), "");
  EXPECT_EQ(layout(*names_, ino, 45, UINT64_MAX), "40+10=a@0");
  EXPECT_THAT(names_->extents(999, 0, 1), FailsErrno(ENOENT));
}

TEST_P(MetaConformance, WhatCannotBeWrittenChangesNothing) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 10);
  const Inode before = inode(ino);
  const std::vector<Place> bad = {place(5), {.object = {9999, 1}, .stored = 1, .raw = 1}};
  EXPECT_THAT(names_->write(ino, 0, bad, now()), FailsWith(ErrorCode::kInvalid));
  Place beyond = place(5);
  beyond.offset = kGiB - 2;
  EXPECT_THAT(names_->write(ino, 0, {&beyond, 1}, now()), FailsWith(ErrorCode::kInvalid));
  const Place good = place(5);
  EXPECT_THAT(names_->write(ino, kFileBytesMax - 4, {&good, 1}, now()), FailsErrno(EFBIG));
  EXPECT_THAT(names_->write(kRoot, 0, {&good, 1}, now()), FailsErrno(EISDIR));
  EXPECT_THAT(names_->write(999, 0, {&good, 1}, now()), FailsErrno(ENOENT));
  Place large = place(5);
  large.raw = kChunkBytesMax + 1;
  EXPECT_THAT(names_->write(ino, 0, {&large, 1}, now()), FailsWith(ErrorCode::kInvalid));
  EXPECT_EQ(layout(*names_, ino), "0+10=a@0");
  EXPECT_EQ(inode(ino).data_version, before.data_version);
  EXPECT_EQ(*names_->totals(), (Totals{10, 2}));
  EXPECT_THAT(names_->write(ino, kFileBytesMax - 5, {&good, 1}, now()), IsOk());
  expect_sound();
}

TEST_P(MetaConformance, PunchLeavesAHoleOrZeros) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 100);
  const Result<Inode> punched = names_->punch(ino, 10, 20, false, now());
  ASSERT_THAT(punched, IsOk());
  EXPECT_EQ(punched->allocated, 80u);
  EXPECT_EQ(punched->size, 100u);
  EXPECT_EQ(layout(*names_, ino), "0+10=a@0 30+70=a@30");
  ASSERT_THAT(names_->punch(ino, 20, 20, true, now()), IsOk());
  EXPECT_EQ(layout(*names_, ino), "0+10=a@0 20+20=0 40+60=a@40");
  ASSERT_THAT(names_->punch(ino, 90, kTiB, false, now()), IsOk());
  EXPECT_EQ(layout(*names_, ino), "0+10=a@0 20+20=0 40+50=a@40");
  EXPECT_EQ(inode(ino).size, 100u);
  EXPECT_THAT(names_->punch(ino, 0, 0, false, now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->punch(kRoot, 0, 1, false, now()), FailsErrno(EISDIR));
  EXPECT_THAT(names_->punch(ino, 1, kFileBytesMax, true, now()), FailsErrno(EFBIG));
  EXPECT_THAT(names_->punch(ino, 0, UINT64_MAX, false, now()), IsOk());
  EXPECT_EQ(inode(ino).allocated, 0u);
  expect_sound();
}

TEST_P(MetaConformance, AllocateFillsHoles) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 10, 10);
  const uint64_t content = inode(ino).data_version;
  Result<Inode> allocated = names_->allocate(ino, 5, 20, false, now());
  ASSERT_THAT(allocated, IsOk());
  EXPECT_EQ(allocated->size, 20u);
  EXPECT_EQ(allocated->allocated, 20u);
  EXPECT_EQ(allocated->data_version, content);
  EXPECT_EQ(layout(*names_, ino), "5+5=0 10+10=a@0 20+5=0");
  allocated = names_->allocate(ino, 0, kTiB, true, now());
  ASSERT_THAT(allocated, IsOk());
  EXPECT_EQ(allocated->size, kTiB);
  EXPECT_EQ(allocated->allocated, kTiB);
  EXPECT_LT(extents(*names_, ino).size(), 10u);  // And not one for each 16 MiB.
  write(ino, kTiB / 2, 10);
  EXPECT_EQ(layout(*names_, ino, kTiB / 2 - 1, 12).substr(0, 3), "25+");
  ASSERT_THAT(names_->change(ino, {.size = 7}, now()), IsOk());
  EXPECT_EQ(layout(*names_, ino), "0+5=0 5+2=0");
  EXPECT_THAT(names_->allocate(ino, kFileBytesMax, 1, true, now()), FailsErrno(EFBIG));
  EXPECT_THAT(names_->allocate(ino, 0, 0, true, now()), FailsErrno(EINVAL));
  expect_sound();
}

TEST_P(MetaConformance, CopiedRangesShareChunks) {
  const Ino from = file(kRoot, "from").ino;
  const Ino to = file(kRoot, "to").ino;
  write(from, 0, 100);
  write(from, 150, 50);
  write(to, 0, 300);
  const Result<Inode> copied = names_->copy_range(from, 50, to, 100, 120, now());
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(copied->size, 300u);
  EXPECT_EQ(layout(*names_, to), "0+100=a@0 100+50=b@50 200+20=c@0 220+80=a@220");
  EXPECT_EQ(copied->allocated, 250u);
  // No further than the source goes.
  EXPECT_EQ(names_->copy_range(from, 190, to, 1000, 500, now())->size, 1010u);
  EXPECT_EQ(names_->copy_range(from, 500, to, 2000, 10, now())->size, 1010u);
  EXPECT_THAT(names_->copy_range(to, 0, to, 50, 100, now()), FailsErrno(EINVAL));
  EXPECT_THAT(names_->copy_range(to, 0, to, 100, 100, now()), IsOk());
  EXPECT_THAT(names_->copy_range(kRoot, 0, to, 0, 1, now()), FailsErrno(EISDIR));
  const auto chunks = database_->chunks_of(extents(*names_, from)[0].place.object, 0, 1);
  ASSERT_THAT(chunks, IsOk());
  EXPECT_EQ((*chunks)[0].references, 1u);  // The second was taken away again.
  expect_sound();
}

TEST_P(MetaConformance, MergePutsOneChunkInThePlaceOfMany) {
  const Ino ino = file(kRoot, "a").ino;
  for (uint64_t i = 0; i < 10; ++i) write(ino, i * 10, 10);
  ASSERT_THAT(names_->punch(ino, 35, 10, false, now()), IsOk());
  const Version before = commit();
  const Inode old = inode(ino);
  const std::vector<Extent> expected = extents(*names_, ino, 20, 50);
  const Place merged = place(50);
  ASSERT_THAT(names_->merge(ino, expected, merged), IsOk());
  const Inode now_is = inode(ino);
  EXPECT_EQ(now_is.data_version, old.data_version);
  EXPECT_EQ(now_is.mtime, old.mtime);
  EXPECT_EQ(now_is.ctime, old.ctime);
  EXPECT_EQ(now_is.allocated, 100u);
  EXPECT_EQ(layout(*names_, ino), "0+10=a@0 10+10=b@0 20+50=c@0 70+10=d@0 80+10=e@0 90+10=f@0");
  EXPECT_THAT(names_->merge(ino, expected, merged), FailsWith(ErrorCode::kChanged));
  EXPECT_THAT(names_->merge(ino, {}, merged), FailsErrno(EINVAL));
  EXPECT_THAT(names_->merge(ino, extents(*names_, ino, 0, 10), merged), FailsErrno(EINVAL));
  commit();
  EXPECT_EQ(extents(*at(before), ino).size(), 10u);
  expect_sound();
}

}  // namespace penstock::meta
