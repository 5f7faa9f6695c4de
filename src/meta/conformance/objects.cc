// Objects, chunks in them, and what keeps both.
#include "meta/conformance.h"

namespace penstock::meta {

TEST_P(MetaConformance, ObjectsGoThroughTheirStatesForwardOnly) {
  const ObjectId id{database_->session(), 1};
  ASSERT_THAT(database_->add_object({.id = id, .bytes = 0}), IsOk());
  EXPECT_THAT(database_->add_object({.id = id}), FailsWith(ErrorCode::kExists));
  const Ino ino = file(kRoot, "a").ino;
  const Place one{.object = id, .stored = 10, .raw = 10};
  EXPECT_THAT(names_->write(ino, 0, {&one, 1}, now()), FailsWith(ErrorCode::kInvalid));
  ASSERT_THAT(database_->set_object(id, ObjectState::kStored, 100), IsOk());
  ASSERT_THAT(names_->write(ino, 0, {&one, 1}, now()), IsOk());
  const auto objects = database_->objects({}, 10);
  ASSERT_THAT(objects, IsOk());
  ASSERT_EQ(objects->size(), 1u);
  EXPECT_EQ((*objects)[0].id, id);
  EXPECT_EQ((*objects)[0].state, ObjectState::kStored);
  EXPECT_EQ((*objects)[0].kind, ObjectKind::kData);
  EXPECT_EQ((*objects)[0].bytes, 100u);
  EXPECT_EQ((*objects)[0].live_bytes, 10u);
  EXPECT_EQ((*objects)[0].changed, commit());
  EXPECT_THAT(database_->set_object(id, ObjectState::kPending, 100),
              FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(database_->set_object(id, ObjectState::kStored, 50), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(database_->set_object(id, ObjectState::kStored, 200), IsOk());  // It grew.
  EXPECT_THAT(database_->set_object(id, ObjectState::kCondemned, 200),
              FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(database_->drop_object(id), FailsWith(ErrorCode::kInvalid));
  ASSERT_THAT(names_->change(ino, {.size = 0}, now()), IsOk());
  EXPECT_THAT(database_->set_object(id, ObjectState::kCondemned, 200),
              FailsWith(ErrorCode::kInvalid));
  commit();
  ASSERT_THAT(database_->purge(now(), 100), IsOk());
  EXPECT_EQ((*database_->objects({}, 10))[0].live_bytes, 0u);
  EXPECT_THAT(database_->set_object(id, ObjectState::kCondemned, 200), IsOk());
  EXPECT_THAT(names_->write(ino, 0, {&one, 1}, now()), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(database_->drop_object(id), IsOk());
  EXPECT_THAT(database_->drop_object(id), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->set_object(id, ObjectState::kStored, 1), FailsWith(ErrorCode::kNotFound));
  expect_sound();
}

TEST_P(MetaConformance, ListsObjectsAndChunksInPages) {
  for (int i = 0; i < 5; ++i) object();
  const auto first = database_->objects({}, 3);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->size(), 3u);
  const auto second = database_->objects(first->back().id, 3);
  ASSERT_EQ(second->size(), 2u);
  EXPECT_GT(second->front().id, first->back().id);
  EXPECT_TRUE(database_->objects(second->back().id, 3)->empty());

  const Ino ino = file(kRoot, "a").ino;
  for (uint64_t i = 0; i < 5; ++i) write(ino, i * 10, 10);
  const Place last = extents(*names_, ino).back().place;
  const auto chunks = database_->chunks_of(last.object, 0, 100);
  ASSERT_THAT(chunks, IsOk());
  ASSERT_EQ(chunks->size(), 5u);
  EXPECT_EQ(chunks->back().place, last);
  EXPECT_EQ(chunks->back().references, 1u);
  EXPECT_EQ(database_->chunks_of(last.object, last.offset, 100)->size(), 1u);
  EXPECT_EQ(database_->chunks_of(last.object, 0, 2)->size(), 2u);
  EXPECT_TRUE(database_->chunks_of(last.object, last.offset + 1, 100)->empty());
}

TEST_P(MetaConformance, SegmentsSayWhetherAnythingLiesInThem) {
  const ObjectId segment{0, 7};
  const ObjectId data = object();
  for (const ObjectId id : {ObjectId{0, 8}, segment}) {
    ASSERT_THAT(
        database_->add_object(
            {.id = id, .kind = ObjectKind::kJournal, .state = ObjectState::kStored, .bytes = kMiB}),
        IsOk());
  }
  const auto segments = database_->segments();
  ASSERT_THAT(segments, IsOk());
  ASSERT_EQ(segments->size(), 2u);
  EXPECT_EQ((*segments)[0].id, segment);
  EXPECT_EQ((*segments)[0].kind, ObjectKind::kJournal);
  EXPECT_EQ((*segments)[0].bytes, kMiB);
  EXPECT_EQ(database_->object(data)->kind, ObjectKind::kData);
  EXPECT_THAT(database_->object({0, 99}), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(database_->add_object({}), FailsWith(ErrorCode::kInvalid));  // Before all others.

  const auto live = [&] { return database_->object(segment)->live_bytes; };
  EXPECT_EQ(live(), 0u);
  const Ino ino = file(kRoot, "a").ino;
  for (const uint64_t offset : {0, 100}) {
    const Place place{.object = segment, .offset = offset, .stored = 30, .raw = 40};
    ASSERT_THAT(names_->write(ino, 0, {&place, 1}, now()), IsOk());
    commit();
  }
  EXPECT_EQ(live(), 60u);  // The past has its own.
  Place to{.object = data, .stored = 30, .raw = 40};
  const auto chunks = database_->chunks_of(segment, 0, 10);
  ASSERT_THAT(chunks, IsOk());
  for (const Chunk& chunk : *chunks) {
    ASSERT_THAT(database_->move_chunk(chunk.id, chunk.place, to), IsOk());
    to.offset += to.stored;
  }
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(database_->chunks_of(segment, 0, 10)->empty());
  ASSERT_THAT(database_->set_object(segment, ObjectState::kCondemned, kMiB), IsOk());
  EXPECT_EQ(database_->segments()->front().state, ObjectState::kCondemned);
  ASSERT_THAT(database_->drop_object(segment), IsOk());
  EXPECT_EQ(database_->segments()->size(), 1u);
  EXPECT_THAT(database_->object(segment), FailsWith(ErrorCode::kNotFound));
  expect_sound();
}

TEST_P(MetaConformance, MovedChunksAreFoundByEveryVersion) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 100);
  const Version version = commit();
  const Extent before = extents(*names_, ino)[0];
  Place to = before.place;
  to.object = object();
  to.offset = 500;
  to.stored = 60;
  to.codec = codec::Codec::kLz4;
  to.checksum = 42;
  ASSERT_THAT(database_->move_chunk(before.chunk, before.place, to), IsOk());
  EXPECT_EQ(extents(*names_, ino)[0].place, to);
  EXPECT_EQ(extents(*names_, ino)[0].chunk, before.chunk);
  EXPECT_EQ(extents(*at(version), ino)[0].place, to);
  EXPECT_THAT(database_->move_chunk(before.chunk, before.place, to),
              FailsWith(ErrorCode::kChanged));
  EXPECT_THAT(database_->move_chunk(99999, before.place, to), FailsWith(ErrorCode::kChanged));
  Place nowhere = to;
  nowhere.object = {77, 77};
  EXPECT_THAT(database_->move_chunk(before.chunk, to, nowhere), FailsWith(ErrorCode::kInvalid));
  Place other = to;
  other.raw = 99;
  EXPECT_THAT(database_->move_chunk(before.chunk, to, other), FailsWith(ErrorCode::kInvalid));
  const auto objects = database_->objects({}, 10);
  ASSERT_THAT(objects, IsOk());
  for (const Object& one : *objects) {
    EXPECT_EQ(one.live_bytes, one.id == to.object ? 60u : 0u);
  }
  expect_sound();
}

TEST_P(MetaConformance, ChunksLiveAsLongAsAVersionNeedsThem) {
  const Ino ino = file(kRoot, "a").ino;
  write(ino, 0, 100);
  const ObjectId id = extents(*names_, ino)[0].place.object;
  commit();
  write(ino, 0, 100);
  const auto live = [&] { return (*database_->objects({}, 1))[0].live_bytes; };
  EXPECT_EQ(live(), 200u);
  EXPECT_EQ(database_->purge(now(), 1000)->chunks, 0u);  // The last version still has the first.
  commit();
  EXPECT_EQ(database_->purge(now(), 1000)->chunks, 1u);
  EXPECT_EQ(live(), 100u);
  EXPECT_EQ(database_->chunks_of(id, 0, 10)->size(), 1u);
  // One that was never committed goes without a trace.
  write(ino, 0, 100);
  write(ino, 0, 100);
  EXPECT_EQ(live(), 200u);
  EXPECT_EQ(database_->purge(now(), 1000)->chunks, 1u);
  ASSERT_THAT(names_->unlink(kRoot, "a", now()), IsOk());
  ASSERT_THAT(names_->forget(ino), IsOk());
  commit();
  EXPECT_EQ(database_->purge(now(), 1000)->chunks, 2u);
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(database_->chunks_of(id, 0, 10)->empty());
  expect_sound();
}

}  // namespace penstock::meta
