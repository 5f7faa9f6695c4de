#include "cache/note_buffer.h"

#include "cache/testing.h"

namespace penstock::cache {

namespace {

using Kind = Note::Kind;
using ::testing::ElementsAre;

TEST(NoteBuffer, SumsWhatIsReadAndMissed) {
  NoteBuffer buffer;
  EXPECT_TRUE(buffer.empty());
  const Note added{Kind::kAdded, test_id(1), kBlockBytes};
  buffer.add({Kind::kMissed, test_id(1), 5});
  buffer.add(added);
  buffer.add({Kind::kUsed, test_id(1), 1});
  buffer.add({Kind::kUsed, test_id(2), 10});
  buffer.add({Kind::kUsed, test_id(1), 2});
  buffer.add({Kind::kMissed, test_id(1), 6});
  buffer.add(added);
  EXPECT_FALSE(buffer.empty());
  EXPECT_THAT(buffer.drain().notes, ElementsAre(Note{Kind::kMissed, test_id(1), 11}, added,
                                                Note{Kind::kUsed, test_id(1), 3},
                                                Note{Kind::kUsed, test_id(2), 10}, added));
  EXPECT_TRUE(buffer.empty());
  buffer.add({Kind::kUsed, test_id(1), 4});
  EXPECT_THAT(buffer.drain().notes, ElementsAre(Note{Kind::kUsed, test_id(1), 4}));
}

TEST(NoteBuffer, IsBounded) {
  NoteBuffer buffer;
  for (uint64_t i = 0; i < NoteBuffer::kNotesMax + 10; ++i) {
    buffer.add({Kind::kUsed, test_id(i), 1});
  }
  buffer.add({Kind::kUsed, test_id(3), 1});  // Known: no more memory.
  buffer.add({Kind::kExpected, test_id(3), 0});
  for (uint64_t i = 0; i < NoteBuffer::kNotesMax; ++i) {
    buffer.add({Kind::kAdded, test_id(i), kBlockBytes});
  }
  NoteBuffer::Drained drained = buffer.drain();
  EXPECT_EQ(drained.notes.size(), 2 * NoteBuffer::kNotesMax);
  EXPECT_EQ(drained.notes[3].bytes, 2u);
  EXPECT_EQ(drained.forgotten, 11u);
  EXPECT_FALSE(drained.lost);

  for (uint64_t i = 0; i < 2 * NoteBuffer::kNotesMax + 1; ++i) {
    buffer.add({Kind::kDropped, test_id(i), kBlockBytes});
  }
  drained = buffer.drain();
  EXPECT_EQ(drained.notes.size(), 2 * NoteBuffer::kNotesMax);
  EXPECT_TRUE(drained.lost);
  EXPECT_FALSE(buffer.drain().lost);
}

}  // namespace

}  // namespace penstock::cache
