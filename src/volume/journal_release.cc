// Reading content again, and giving up what nobody needs any more.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "volume/journal_impl.h"

namespace penstock::volume {

namespace {

constexpr size_t kSumsMax = (kBodyBytesMax + kPieceBytes - 1) / kPieceBytes;
constexpr size_t kHeadBytesMax = kRecordHeaderBytes + kSumsMax * kSumBytes;

Error damaged(const JournalPlace& place) {
  VolumeMetrics::global().verification_failures.add();
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("record {} of the journal (segment {:x}, at {}) is damaged",
                                place.sequence, place.segment, place.offset));
}

// Content of one record, piece by piece.
class PlaceReader {
 public:
  PlaceReader(io::File& file, const JournalPlace& place) : file_(file), place_(place) {}

  // The header, verified. `seed` is that of the place.
  Result<RecordHeader> open(uint64_t seed) {
    const size_t got = PENSTOCK_TRY(file_.read(place_.offset, head_));
    const auto header = parse_record_header(std::span(head_).first(got), seed);
    if (!header || header->sequence != place_.sequence || header->record_at() > got ||
        !verify_sums(sums(*header), *header)) {
      return damaged(place_);
    }
    header_ = *header;
    return header_;
  }

  Result<void> read(uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
      const size_t index = offset / kPieceBytes;
      const uint64_t begin = index * kPieceBytes;
      const size_t piece_bytes = std::min<uint64_t>(kPieceBytes, header_.content_bytes - begin);
      const size_t skipped = offset - begin;
      const size_t taken = std::min(piece_bytes - skipped, into.size());
      if (taken == piece_bytes) {
        PENSTOCK_TRY(read_piece(index, into.first(taken)));
      } else {
        scratch_.resize(kPieceBytes);
        const auto piece = std::span(scratch_).first(piece_bytes);
        PENSTOCK_TRY(read_piece(index, piece));
        std::memcpy(into.data(), piece.data() + skipped, taken);
      }
      offset += taken;
      into = into.subspan(taken);
    }
    return {};
  }

 private:
  std::span<const std::byte> sums(const RecordHeader& header) const {
    return std::span(head_).subspan(kRecordHeaderBytes, header.sums_bytes());
  }

  Result<void> read_piece(size_t index, std::span<std::byte> piece) {
    const uint64_t at = place_.offset + header_.content_at() + index * kPieceBytes;
    const size_t got = PENSTOCK_TRY(file_.read(at, piece));
    if (got < piece.size() || !verify_piece(piece, sums(header_), index)) return damaged(place_);
    return {};
  }

  io::File& file_;
  const JournalPlace& place_;
  RecordHeader header_;
  std::array<std::byte, kHeadBytesMax> head_;
  std::vector<std::byte> scratch_;  // For pieces of which only a part is wanted.
};

}  // namespace

class Journal::Impl::Pin {
 public:
  Pin(Impl& impl, SegmentRef segment) : impl_(impl), segment_(std::move(segment)) {}
  ~Pin() {
    if (segment_ == nullptr) return;
    const Lock state(impl_.state_);
    --segment_->readers;
  }
  Pin(Pin&& other) noexcept : impl_(other.impl_), segment_(std::move(other.segment_)) {}
  Pin& operator=(Pin&&) = delete;
  const Segment& operator*() const { return *segment_; }
  const Segment* operator->() const { return segment_.get(); }

 private:
  Impl& impl_;
  SegmentRef segment_;
};

Result<Journal::Impl::Pin> Journal::Impl::pin(uint64_t number) {
  const Lock state(state_);
  PENSTOCK_TRY(check_usable(state));
  const auto found = live_.find(number);
  if (found == live_.end() || found->second->leaving) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("segment {:x} of the journal was released", number));
  }
  ++found->second->readers;
  return Pin(*this, found->second);
}

Result<void> Journal::Impl::read(const JournalPlace& place, uint64_t content_offset,
                                 std::span<std::byte> into) {
  const Pin segment = PENSTOCK_TRY(pin(place.segment));
  PlaceReader reader(*segment->file, place);
  const RecordHeader header = PENSTOCK_TRY(reader.open(segment->identity().seed(place.offset)));
  if (content_offset > header.content_bytes ||
      into.size() > header.content_bytes - content_offset) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} bytes from {} of record {}, whose content has {}", into.size(),
                    content_offset, place.sequence, header.content_bytes));
  }
  return reader.read(content_offset, into);
}

Result<int64_t> Journal::Impl::time_of(const JournalPlace& place) {
  const Pin segment = PENSTOCK_TRY(pin(place.segment));
  PlaceReader reader(*segment->file, place);
  return PENSTOCK_TRY(reader.open(segment->identity().seed(place.offset))).time_ns;
}

Result<void> Journal::Impl::release(uint64_t sequence, const Keep& keep) {
  const Lock releasing(releasing_);
  std::vector<SegmentRef> segments = PENSTOCK_TRY(released_segments(sequence));
  if (keep) {
    std::erase_if(segments,
                  [&](const SegmentRef& segment) { return keep(segment->header.number); });
  }
  segments = mark_leaving(segments);
  if (segments.empty()) return {};
  const Result<void> done = put_aside(segments);
  if (done.ok()) return {};
  // Which names there are now is not known any more.
  const Lock state(state_);
  return fail(state, done.error());
}

// Those that hold only released records. Not the newest: it is appended to, or keeps the numbers
// going up.
Result<std::vector<SegmentRef>> Journal::Impl::released_segments(uint64_t sequence) {
  const Lock state(state_);
  PENSTOCK_TRY(check_usable(state));
  if (sequence > last_) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("release of records up to {}, where {} is the last", sequence, last_));
  }
  released_ = std::max(released_, sequence);
  ages_.forget(released_);
  std::vector<SegmentRef> segments;
  for (const auto& [number, segment] : live_) {
    if (number != live_.rbegin()->first && segment->last <= released_) {
      segments.push_back(segment);
    }
  }
  return segments;
}

// But for those that are being read: they wait for the next release.
std::vector<SegmentRef> Journal::Impl::mark_leaving(const std::vector<SegmentRef>& segments) {
  const Lock state(state_);
  std::vector<SegmentRef> leaving;
  for (const SegmentRef& segment : segments) {
    if (segment->readers > 0) continue;
    segment->leaving = true;
    leaving.push_back(segment);
  }
  return leaving;
}

size_t Journal::Impl::room_for_spares() const {
  const Lock state(state_);
  const uint64_t wanted = options_.spare_bytes / options_.segment_bytes;
  return wanted - std::min<uint64_t>(wanted, spares_.size());
}

// A file may be written to under its new number only when no power cut can give it the old name
// back: only then is it a spare.
Result<void> Journal::Impl::put_aside(const std::vector<SegmentRef>& segments) {
  std::vector<Spare> spares;
  const size_t room = room_for_spares();
  for (const SegmentRef& segment : segments) {
    const uint64_t number = segment->header.number;
    if (spares.size() < room && segment->bytes == options_.segment_bytes) {
      PENSTOCK_TRY(files_.set_aside(number));
      spares.push_back({number, segment->file});
    } else {
      PENSTOCK_TRY(files_.remove(kSegmentPrefix, number));
    }
  }
  PENSTOCK_TRY(files_.sync_names());
  const Lock state(state_);
  for (const SegmentRef& segment : segments) live_.erase(segment->header.number);
  std::ranges::move(spares, std::back_inserter(spares_));
  return {};
}

}  // namespace penstock::volume
