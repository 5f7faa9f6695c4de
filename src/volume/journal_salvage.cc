#include "volume/journal_salvage.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "volume/journal_scan.h"

namespace penstock::volume {

namespace {

using After = std::function<uint64_t(const SegmentHeader&)>;
using Visit = std::function<Result<void>(const SalvagedRecord&)>;

class Salvage {
 public:
  Salvage(io::FileSystem& fs, const std::string& directory, const After& after, const Visit& visit)
      : fs_(fs), files_(fs, directory, {}), after_(after), visit_(visit) {}

  Result<Salvaged> run() {
    const JournalFiles::Found found = PENSTOCK_TRY(files_.list());
    answer_.highest_segment = found.highest();
    std::vector<Segment> segments;
    for (const uint64_t number : found.segments) {
      if (auto segment = PENSTOCK_TRY(open(number))) segments.push_back(std::move(*segment));
    }
    for (size_t i = 0; i < segments.size(); ++i) {
      const bool same =
          i + 1 < segments.size() && segments[i + 1].header.volume == segments[i].header.volume;
      // What lies there from then on was cut off by an earlier replay.
      PENSTOCK_TRY(walk(segments[i], same ? segments[i + 1].header.first : UINT64_MAX));
    }
    return std::move(answer_);
  }

 private:
  Result<std::optional<Segment>> open(uint64_t number) {
    const std::string path = files_.path_of(kSegmentPrefix, number);
    Segment segment;
    segment.file = PENSTOCK_TRY(fs_.open(path, {.plain_only = true}));
    std::array<std::byte, kSegmentFieldsBytes> fields;
    const size_t count = PENSTOCK_TRY(segment.file->read(0, fields));
    const Result<SegmentHeader> header = parse_segment_header(std::span(fields).first(count));
    if (!header.ok()) {
      auto& list =
          header.error().code == ErrorCode::kUnsupported ? answer_.unsupported : answer_.damage;
      list.push_back(fmt::format("{}: {}", path, header.error().detail));
      return std::optional<Segment>();
    }
    segment.header = *header;
    answer_.segment_bytes = std::max(answer_.segment_bytes, header->bytes);
    segment.bytes = std::min(header->bytes, PENSTOCK_TRY(segment.file->stat()).size);
    return std::optional(std::move(segment));
  }

  Result<void> walk(const Segment& segment, uint64_t stop) {
    SegmentScan scan(segment);
    const uint64_t known = after_(segment.header);
    uint64_t next = segment.header.first;
    uint64_t at = kSegmentHeaderBytes;
    std::optional<uint64_t> damaged;  // Since where.
    while (at + kRecordHeaderBytes <= segment.bytes && next < stop) {
      const auto found = PENSTOCK_TRY(scan.record_at(at, known));
      if (!found || found->header.sequence < next || found->header.sequence >= stop) {
        if (!damaged) damaged = at;
        at += kRecordAlignment;
        continue;
      }
      if (damaged) note_damage(segment, *damaged, next, found->header.sequence - 1);
      damaged.reset();
      PENSTOCK_TRY(tell(segment, at, *found, known));
      next = found->header.sequence + 1;
      at += found->header.total_bytes();
    }
    // The end of the last one looks like this too.
    if (stop != UINT64_MAX && next < stop) {
      note_damage(segment, damaged.value_or(at), next, stop - 1);
    }
    return {};
  }

  Result<void> tell(const Segment& segment, uint64_t at, const FoundRecord& found, uint64_t known) {
    const RecordHeader& header = found.header;
    if (header.sequence <= known) return {};
    return visit_(
        {segment.header,
         {header.sequence, segment.header.number, at, static_cast<uint32_t>(header.total_bytes())},
         found.view.record,
         found.view.content});
  }

  void note_damage(const Segment& segment, uint64_t at, uint64_t first, uint64_t last) {
    answer_.damage.push_back(
        fmt::format("records {} to {} cannot be read: {} is damaged at {}", first, last,
                    files_.path_of(kSegmentPrefix, segment.header.number), at));
  }

  io::FileSystem& fs_;
  JournalFiles files_;
  const After& after_;
  const Visit& visit_;
  Salvaged answer_;
};

}  // namespace

Result<Salvaged> salvage_journal(io::FileSystem& fs, const std::string& directory,
                                 const After& after, const Visit& visit) {
  return Salvage(fs, directory, after, visit).run();
}

}  // namespace penstock::volume
