#include "volume/read_ahead.h"

#include <algorithm>

namespace penstock::volume {

namespace {

// How far requests of one reader overtake each other: what the kernel has under way.
constexpr uint64_t kDisorderBytes = 4 * kMiB;
// A reader that did not come for so many reads of all has stopped.
constexpr uint64_t kLately = 4 * ReadAhead::kReadersMax;

}  // namespace

bool ReadAhead::follows(const Reader& reader, meta::Ino ino, uint64_t offset, uint64_t length) {
  if (reader.ino != ino) return false;
  const uint64_t end = offset + length;
  return offset <= reader.end + (reader.ahead > 0 ? kDisorderBytes : length) &&
         end + kDisorderBytes >= reader.end;
}

// How far one reader may go, with the others that read now.
uint64_t ReadAhead::share() const {
  const auto count =
      static_cast<uint64_t>(std::ranges::count_if(readers_, [&](const Reader& reader) {
        return reader.ahead > 0 && reads_ - reader.last < kLately;
      }));
  return std::max(kBytesMax / std::max<uint64_t>(count, 1), kFirstBytes);
}

std::optional<ReadRange> ReadAhead::note(meta::Ino ino, uint64_t offset, uint64_t length) {
  const std::lock_guard lock(mutex_);
  ++reads_;
  const auto found = std::ranges::find_if(
      readers_, [&](const Reader& reader) { return follows(reader, ino, offset, length); });
  if (found == readers_.end()) {
    readers_.push_front({ino, offset + length, offset + length, 0, reads_});
    if (readers_.size() > kReadersMax) readers_.pop_back();
    return std::nullopt;
  }
  readers_.splice(readers_.begin(), readers_, found);
  Reader& reader = readers_.front();
  reader.last = reads_;
  if (offset + length <= reader.end) return std::nullopt;  // Again, or late.
  reader.end = offset + length;
  reader.loaded = std::max(reader.loaded, reader.end);
  if (reader.ahead == 0) reader.ahead = kFirstBytes;
  // Half of it is still to come: more at once is cheaper than a little each time.
  if (reader.loaded - reader.end > reader.ahead / 2) return std::nullopt;
  const ReadRange range{reader.loaded, reader.end + reader.ahead - reader.loaded};
  reader.loaded = reader.end + reader.ahead;
  reader.ahead = std::min(2 * reader.ahead, share());
  return range;
}

}  // namespace penstock::volume
