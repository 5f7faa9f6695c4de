// Reads what is in a segment, whatever that is: nothing outside of it is read, and no more memory
// taken than it is long.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "volume/journal_files.h"

namespace penstock::volume {

// A record that was found, with views that last until the next call.
struct FoundRecord {
  RecordHeader header;
  RecordView view;  // Empty when it was not asked for.
};

// Headers of records that were found somewhere, whether or not what belongs to them is whole.
struct Traces {
  bool any = false;
  uint64_t synced = 0;  // The most that one of them says was durable.
};

class SegmentScan {
 public:
  explicit SegmentScan(const Segment& segment);

  // The record at `offset`. Nothing when there is none, or when it is not whole; the body of one
  // whose sequence is up to `known` is not looked at. Errors are those of reading.
  Result<std::optional<FoundRecord>> record_at(uint64_t offset, uint64_t known);
  // From `offset` on, wherever they lie: what is damaged does not tell where the next one begins.
  Result<Traces> traces_from(uint64_t offset);

 private:
  // What the file holds at `offset`: `bytes` of it, or less where it ends.
  Result<std::span<const std::byte>> view(uint64_t offset, uint64_t bytes);

  const Segment& segment_;
  const SegmentIdentity identity_;
  std::vector<std::byte> buffer_;
  uint64_t begin_ = 0;  // Of what the buffer holds.
  uint64_t count_ = 0;
};

}  // namespace penstock::volume
