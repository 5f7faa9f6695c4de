#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace penstock::cache {

// Tells sequential readers from random ones, object by object. An object may have several readers
// at once: the last four places where reading went on are remembered.
// Threads: all calls from any thread. Memory: fixed; objects that share a slot only guess worse.
class Streams {
 public:
  struct Pattern {
    bool sequential = false;
    uint32_t run = 0;   // How many reads in a row continued here; 1 for a first one at the front.
    bool cold = false;  // Some of the last reads of this object went to the source.
  };

  Streams();
  // A read of [offset, offset + length) of the object with this hash.
  Pattern note(uint64_t object, uint64_t offset, uint64_t length);
  // A read of it went to the source.
  void missed(uint64_t object);

 private:
  struct Stream {
    uint64_t end = 0;
    uint64_t last_used = 0;
    uint32_t run = 0;
    bool from_front = false;
  };
  struct Slot {
    uint64_t object = 0;
    uint64_t last_missed = 0;
    std::array<Stream, 4> streams;
  };

  std::mutex mutex_;
  uint64_t clock_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace penstock::cache
