#include "volume/journal_scan.h"

#include <algorithm>
#include <cstring>

namespace penstock::volume {

namespace {

constexpr uint64_t kWindowBytes = 4 * kMiB;
static_assert(kWindowBytes >= kTotalBytesMax);

bool has_magic(const std::byte* bytes) {
  constexpr RecordHeader kNone;
  return std::memcmp(bytes, kNone.magic, sizeof(kNone.magic)) == 0;
}

}  // namespace

SegmentScan::SegmentScan(const Segment& segment)
    : segment_(segment),
      identity_(segment.identity()),
      buffer_(std::min(kWindowBytes, segment.bytes)) {}

Result<std::span<const std::byte>> SegmentScan::view(uint64_t offset, uint64_t bytes) {
  if (offset >= segment_.bytes) return std::span<const std::byte>();
  bytes = std::min(bytes, segment_.bytes - offset);
  if (offset < begin_ || offset + bytes > begin_ + count_) {
    const uint64_t wanted = std::min<uint64_t>(buffer_.size(), segment_.bytes - offset);
    count_ = 0;
    const size_t got = PENSTOCK_TRY(segment_.file->read(offset, std::span(buffer_).first(wanted)));
    begin_ = offset;
    count_ = got;
  }
  const auto held = std::span<const std::byte>(buffer_).first(count_).subspan(offset - begin_);
  return held.first(std::min<uint64_t>(bytes, held.size()));
}

Result<std::optional<FoundRecord>> SegmentScan::record_at(uint64_t offset, uint64_t known) {
  const auto front = PENSTOCK_TRY(view(offset, kRecordHeaderBytes));
  const auto header = parse_record_header(front, identity_.seed(offset));
  if (!header || header->total_bytes() > segment_.bytes - offset) {
    return std::optional<FoundRecord>();
  }
  if (header->sequence <= known) return std::optional(FoundRecord{*header, {}});
  const auto whole = PENSTOCK_TRY(view(offset, header->total_bytes()));
  if (whole.size() < header->total_bytes()) return std::optional<FoundRecord>();
  const auto verified = verify_body(whole, *header);
  if (!verified) return std::optional<FoundRecord>();
  return std::optional(FoundRecord{*header, *verified});
}

Result<Traces> SegmentScan::traces_from(uint64_t offset) {
  Traces traces;
  while (true) {
    const auto bytes = PENSTOCK_TRY(view(offset, buffer_.size()));
    if (bytes.size() < kRecordHeaderBytes) return traces;
    size_t at = 0;
    for (; at + kRecordHeaderBytes <= bytes.size(); at += kRecordAlignment) {
      if (!has_magic(bytes.data() + at)) continue;
      const auto header = parse_record_header(bytes.subspan(at), identity_.seed(offset + at));
      if (!header) continue;
      traces.any = true;
      traces.synced = std::max(traces.synced, header->synced);
    }
    offset += at;
  }
}

}  // namespace penstock::volume
