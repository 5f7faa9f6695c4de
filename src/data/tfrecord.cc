#include "data/tfrecord.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "codec/crc.h"
#include "penstock/data.h"

namespace penstock::data {

namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
T value_at(std::span<const std::byte> bytes, size_t offset) {
  T value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Error corrupt(uint64_t offset, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("TFRecord, at offset {}: {}", offset, what));
}

}  // namespace

std::optional<uint64_t> record_length(std::span<const std::byte> front) {
  if (mask_crc(codec::crc32c(front.first(8))) != value_at<uint32_t>(front, 8)) return std::nullopt;
  return value_at<uint64_t>(front, 0);
}

Result<void> TfRecordParser::take(std::span<const std::byte> bytes) {
  const std::optional<uint64_t> length = record_length(bytes);
  if (!length) return corrupt(at_, "no record (the checksum of its length is wrong)");
  if (*length > kShardBytesMax - at_ - kRecordFrameBytes) {
    return corrupt(at_, fmt::format("a record of {} bytes", *length));
  }
  const uint64_t size = *length + kRecordFrameBytes;
  PENSTOCK_TRY(visit_(at_, size));
  last_ = at_;
  at_ += size;
  return {};
}

Result<void> TfRecordParser::end_at(uint64_t size) {
  if (size == at_) return {};
  return corrupt(size < at_ ? last_ : at_, fmt::format("cut off: the file has {} bytes", size));
}

Result<std::span<const std::byte>> verify_record(std::span<const std::byte> record) {
  if (record.size() < kRecordFrameBytes) {
    return make_error(ErrorCode::kCorrupt, "TFRecord: less than a record");
  }
  const std::optional<uint64_t> length = record_length(record.first(kRecordFrontBytes));
  if (length != record.size() - kRecordFrameBytes) {
    return make_error(ErrorCode::kCorrupt, "TFRecord: the length of a record is wrong");
  }
  const std::span<const std::byte> data = record.subspan(kRecordFrontBytes, *length);
  if (mask_crc(codec::crc32c(data)) != value_at<uint32_t>(record, record.size() - 4)) {
    return make_error(ErrorCode::kCorrupt, "TFRecord: the checksum of a record is wrong");
  }
  return data;
}

}  // namespace penstock::data
