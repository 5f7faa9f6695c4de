// Notes between two ticks of a keeper: bounded, and of thirty thousand hits a second on the same
// entries only the sums.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cache/log_record.h"

namespace penstock::cache {

class NoteBuffer {
 public:
  // Beyond, what costs only knowledge is dropped; beyond twice as many, everything is.
  static constexpr size_t kNotesMax = 65536;

  void add(const Note& note);

  struct Drained {
    std::vector<Note> notes;  // In order, but that bytes read or missed later come with the first.
    bool lost = false;        // Entries were added or dropped that are not among them.
    uint64_t forgotten = 0;   // How many notes were dropped.
  };
  Drained drain();
  bool empty() const { return notes_.notes.empty() && !notes_.lost; }

 private:
  struct Place {
    uint32_t used = UINT32_MAX;  // Where in `notes`.
    uint32_t missed = UINT32_MAX;
  };

  Drained notes_;
  std::unordered_map<EntryId, Place, EntryIdHash> places_;
};

}  // namespace penstock::cache
