// TFRecord: each record has its length in front, and a checksum behind the length and behind the data.
#pragma once

#include <functional>

#include "data/shard_parser.h"

namespace penstock::data {

inline constexpr size_t kRecordFrontBytes = 12;  // Length and its checksum.
inline constexpr size_t kRecordFrameBytes = 16;

// As TFRecord stores it: so that the checksum of data with checksums in it stays a good one.
constexpr uint32_t mask_crc(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

// The length of the data, from the front of a record; nothing when its checksum is wrong.
std::optional<uint64_t> record_length(std::span<const std::byte> front);

// Finds the records. The lengths are checked by their checksums, the data is not looked at.
class TfRecordParser final : public ShardParser {
 public:
  // With offset and size of the whole record.
  using Visit = std::function<Result<void>(uint64_t offset, uint64_t size)>;

  explicit TfRecordParser(Visit visit) : visit_(std::move(visit)) {}

  std::optional<Wanted> wants() const override { return Wanted{at_, kRecordFrontBytes}; }
  Result<void> take(std::span<const std::byte> bytes) override;
  Result<void> end_at(uint64_t size) override;

 private:
  const Visit visit_;
  uint64_t at_ = 0;
  uint64_t last_ = 0;  // Where the record before began.
};

}  // namespace penstock::data
