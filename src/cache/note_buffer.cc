#include "cache/note_buffer.h"

#include <utility>

namespace penstock::cache {

void NoteBuffer::add(const Note& note) {
  const size_t limit = note.changes_files() ? 2 * kNotesMax : kNotesMax;
  const bool full = notes_.notes.size() >= limit;
  if (note.kind == Note::Kind::kUsed || note.kind == Note::Kind::kMissed) {
    const auto found = full ? places_.find(note.id) : places_.try_emplace(note.id).first;
    if (found != places_.end()) {
      Place& place = found->second;
      uint32_t& at = note.kind == Note::Kind::kUsed ? place.used : place.missed;
      if (at != UINT32_MAX) {
        notes_.notes[at].bytes += note.bytes;
        return;
      }
      if (!full) at = static_cast<uint32_t>(notes_.notes.size());
    }
  }
  if (!full) {
    notes_.notes.push_back(note);
    return;
  }
  ++notes_.forgotten;
  notes_.lost |= note.changes_files();
}

NoteBuffer::Drained NoteBuffer::drain() {
  places_.clear();
  return std::exchange(notes_, {});
}

}  // namespace penstock::cache
