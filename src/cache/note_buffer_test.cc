#include "cache/note_buffer.h"

#include "cache/testing.h"

namespace penstock::cache {

namespace {

using NoteKind = Note::Kind;
using ::testing::ElementsAre;

TEST(NoteBuffer, SumsWhatIsReadAndMissed) {
  NoteBuffer buffer;
  EXPECT_TRUE(buffer.empty());
  const Note added{NoteKind::kAdded, test_id(1), kBlockBytes};
  buffer.add({NoteKind::kMissed, test_id(1), 5});
  buffer.add(added);
  buffer.add({NoteKind::kUsed, test_id(1), 1});
  buffer.add({NoteKind::kUsed, test_id(2), 10});
  buffer.add({NoteKind::kUsed, test_id(1), 2});
  buffer.add({NoteKind::kMissed, test_id(1), 6});
  buffer.add(added);
  EXPECT_FALSE(buffer.empty());
  EXPECT_THAT(buffer.drain().notes, ElementsAre(Note{NoteKind::kMissed, test_id(1), 11}, added,
                                                Note{NoteKind::kUsed, test_id(1), 3},
                                                Note{NoteKind::kUsed, test_id(2), 10}, added));
  EXPECT_TRUE(buffer.empty());
  buffer.add({NoteKind::kUsed, test_id(1), 4});
  EXPECT_THAT(buffer.drain().notes, ElementsAre(Note{NoteKind::kUsed, test_id(1), 4}));
}

TEST(NoteBuffer, IsBounded) {
  NoteBuffer buffer;
  for (uint64_t i = 0; i < NoteBuffer::kNotesMax + 10; ++i) {
    buffer.add({NoteKind::kUsed, test_id(i), 1});
  }
  buffer.add({NoteKind::kUsed, test_id(3), 1});  // Known: no more memory.
  buffer.add({NoteKind::kExpected, test_id(3), 0});
  for (uint64_t i = 0; i < NoteBuffer::kNotesMax; ++i) {
    buffer.add({NoteKind::kAdded, test_id(i), kBlockBytes});
  }
  NoteBuffer::Drained drained = buffer.drain();
  EXPECT_EQ(drained.notes.size(), 2 * NoteBuffer::kNotesMax);
  EXPECT_EQ(drained.notes[3].bytes, 2u);
  EXPECT_EQ(drained.forgotten, 11u);
  EXPECT_FALSE(drained.lost);

  for (uint64_t i = 0; i < 2 * NoteBuffer::kNotesMax + 1; ++i) {
    buffer.add({NoteKind::kDropped, test_id(i), kBlockBytes});
  }
  drained = buffer.drain();
  EXPECT_EQ(drained.notes.size(), 2 * NoteBuffer::kNotesMax);
  EXPECT_TRUE(drained.lost);
  EXPECT_FALSE(buffer.drain().lost);
}

}  // namespace

}  // namespace penstock::cache
