#include "cache/streams.h"

#include <algorithm>

#include "penstock/units.h"

namespace penstock::cache {

namespace {

constexpr size_t kSlots = 1024;
// Large requests of one reader are under way together, and arrive in any order: so many of them.
constexpr uint64_t kSlackReads = 8;
// Small ones come one after the other. Much slack would make random readers of small objects look
// sequential, and each mistake costs a whole window.
constexpr uint64_t kSmallReadBytes = 512 * kKiB;
constexpr uint64_t kSlackSmallReads = 2;
// Reads in a row before one that began in the middle counts as sequential: fewer may be chance.
constexpr uint32_t kRunMin = 4;

uint64_t slack_of(uint64_t length) {
  if (length < kSmallReadBytes) return kSlackSmallReads * length;
  return kSlackReads * std::min(length, kMiB);
}

// For so many reads an object counts as cold after a miss.
constexpr uint64_t kColdReads = 256;

}  // namespace

Streams::Streams() : slots_(kSlots) {}

Streams::Pattern Streams::note(uint64_t object, uint64_t offset, uint64_t length) {
  std::lock_guard lock(mutex_);
  ++clock_;
  Slot& slot = slots_[object % kSlots];
  if (slot.object != object) slot = {.object = object, .last_missed = 0, .streams = {}};
  const bool cold = slot.last_missed != 0 && clock_ - slot.last_missed < kColdReads;

  const uint64_t slack = slack_of(length);
  Stream* oldest = &slot.streams[0];
  for (Stream& stream : slot.streams) {
    if (stream.last_used < oldest->last_used) oldest = &stream;
    const bool goes_on =
        stream.last_used != 0 && offset + slack >= stream.end && offset <= stream.end + slack;
    if (!goes_on) continue;
    // A reader that jumps about within the slack is not going anywhere.
    const uint64_t end = offset + length;
    if (end <= stream.end && stream.run < 2) continue;
    stream.end = std::max(stream.end, end);
    stream.last_used = clock_;
    ++stream.run;
    return {
        .sequential = stream.run >= kRunMin || stream.from_front, .run = stream.run, .cold = cold};
  }
  *oldest = {.end = offset + length, .last_used = clock_, .run = 1, .from_front = offset == 0};
  return {.sequential = oldest->from_front, .run = 1, .cold = cold};
}

void Streams::missed(uint64_t object) {
  std::lock_guard lock(mutex_);
  Slot& slot = slots_[object % kSlots];
  if (slot.object == object) slot.last_missed = clock_;
}

}  // namespace penstock::cache
