// What a policy has learnt, as bytes: docs/formats/cache-index.md.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cache/index_stream.h"
#include "cache/turn_policy.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kSnapshotMagic = 0x78646e692d6e6570;  // "pen-indx"
constexpr uint32_t kSnapshotVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kWeightsBytes = sizeof(Intervals::Weights);
constexpr size_t kEntryBytes = 48;
constexpr size_t kGhostBytes = 20;
constexpr size_t kSnapshotSumBytes = 8;
// Whether its file is there must be seen anew.
constexpr uint32_t kKeptFlags = Entry::kSaid | Entry::kUnused;
constexpr size_t kBytesMin = kHeaderBytes + kWeightsBytes + kSnapshotSumBytes;

class Writer : public IndexWriter {
 public:
  using IndexWriter::IndexWriter;
  using IndexWriter::put;

  void put(const Turn& turn) {
    put(turn.bytes);
    put(turn.read);
    put(turn.count);
    put(turn.spread);
  }
  void put(const Entry& entry) {
    put(entry.id.high);
    put(entry.id.low);
    put(entry.since);
    put(entry.last);
    put(entry.turn);
    put(entry.blocks);
    put(uint32_t{entry.flags} & kKeptFlags);
  }
};

class Reader : public IndexReader {
 public:
  using IndexReader::IndexReader;

  Turn get_turn() {
    Turn turn;
    turn.bytes = get_float();
    turn.read = get<uint16_t>();
    turn.count = get<uint8_t>();
    turn.spread = get<uint8_t>();
    return turn;
  }
  Entry get_entry() {
    Entry entry;
    entry.id.high = get<uint64_t>();
    entry.id.low = get<uint64_t>();
    entry.since = get<uint64_t>();
    entry.last = get<uint64_t>();
    entry.turn = get_turn();
    entry.blocks = get<uint32_t>();
    entry.flags = static_cast<uint8_t>(get<uint32_t>() & kKeptFlags);
    return entry;
  }
};

struct SnapshotHeader {
  uint64_t entries = 0;
  uint64_t ghosts = 0;
  uint64_t clock = 0;
  float late = 0;
  float known = 0;
};

Error corrupt_snapshot(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("index of the cache: {}", what));
}

bool makes_sense(const Turn& turn) {
  return turn.count == 0 ? turn.bytes == 0 : turn.bytes > 0 && turn.bytes < 1e30F;
}

bool makes_sense(const Entry& entry, uint64_t clock) {
  return entry.since <= clock && entry.last <= clock && makes_sense(entry.turn);
}

Result<SnapshotHeader> read_header(Reader& reader, uint64_t bytes) {
  const auto magic = reader.get<uint64_t>();
  PENSTOCK_TRY(Result<void>(reader.result()));
  if (magic != kSnapshotMagic) return corrupt_snapshot("not one");
  const auto version = reader.get<uint32_t>();
  if (version != kSnapshotVersion) {
    return make_error(ErrorCode::kUnsupported, fmt::format("index of the cache: version {}, not {}",
                                                           version, kSnapshotVersion));
  }
  reader.get<uint32_t>();
  SnapshotHeader header;
  header.entries = reader.get<uint64_t>();
  header.ghosts = reader.get<uint64_t>();
  header.clock = reader.get<uint64_t>();
  header.late = reader.get_float();
  header.known = reader.get_float();
  const uint64_t left = bytes - kBytesMin;
  if (header.entries > left / kEntryBytes || header.ghosts > left / kGhostBytes ||
      header.entries * kEntryBytes + header.ghosts * kGhostBytes != left) {
    return corrupt_snapshot("of the wrong length");
  }
  if (!(header.late >= 0 && header.late <= header.known && header.known <= 1e6F)) {
    return corrupt_snapshot("makes no sense");
  }
  return header;
}

}  // namespace

Result<void> TurnPolicy::save(const IndexSink& sink) const {
  uint64_t ghosts = 0;
  for (const Ghosts::Slot& slot : ghosts_.slots()) ghosts += slot.since_and_tag != 0;
  Writer writer(sink);
  writer.put(kSnapshotMagic);
  writer.put(kSnapshotVersion);
  writer.put(uint32_t{0});
  writer.put(table_.size());
  writer.put(ghosts);
  writer.put(clock_);
  writer.put(static_cast<float>(late_));
  writer.put(static_cast<float>(known_));
  for (const float weight : intervals_.weights()) writer.put(weight);
  for (uint64_t i = 0; i < table_.size(); ++i) writer.put(table_.at(i));
  for (uint32_t i = 0; i < ghosts_.slots().size(); ++i) {
    const Ghosts::Slot& slot = ghosts_.slots()[i];
    if (slot.since_and_tag == 0) continue;
    writer.put(i);
    writer.put(slot.since_and_tag);
    writer.put(slot.turn);
  }
  return writer.finish();
}

Result<void> TurnPolicy::restore(uint64_t bytes, const IndexSource& source) {
  if (bytes < kBytesMin) return corrupt_snapshot("not one");
  Reader reader(bytes, source);
  const SnapshotHeader header = PENSTOCK_TRY(read_header(reader, bytes));
  TurnPolicy fresh;
  fresh.capacity_ = capacity_;
  fresh.clock_ = header.clock;
  fresh.late_ = header.late;
  fresh.known_ = header.known;
  Intervals::Weights weights{};
  for (float& weight : weights) weight = reader.get_float();
  if (!fresh.intervals_.set_weights(weights)) return corrupt_snapshot("makes no sense");
  fresh.table_.reserve(header.entries);
  for (uint64_t i = 0; i < header.entries; ++i) {
    const Entry entry = reader.get_entry();
    Entry* place = fresh.table_.insert(entry.id);
    if (place == nullptr || !makes_sense(entry, header.clock))
      return corrupt_snapshot("makes no sense");
    *place = entry;
    fresh.used_blocks_ += entry.blocks;
  }
  fresh.intervals_.set_memory(header.entries / 4);
  for (uint64_t i = 0; i < header.ghosts; ++i) {
    const auto at = reader.get<uint32_t>();
    const auto since_and_tag = reader.get<uint64_t>();
    const Turn turn = reader.get_turn();
    if (at >= Ghosts::kSlots || !makes_sense(turn)) return corrupt_snapshot("makes no sense");
    fresh.ghosts_.set_slot(at, {.since_and_tag = since_and_tag, .turn = turn});
  }
  PENSTOCK_TRY(reader.finish());
  *this = std::move(fresh);
  return {};
}

std::string snapshot_of(const Policy& policy) {
  std::string bytes;
  // It has no way to fail.
  (void)policy.save([&](std::span<const std::byte> piece) -> Result<void> {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  });
  return bytes;
}

Result<void> restore_from(Policy& policy, std::string_view bytes) {
  std::span<const std::byte> left = std::as_bytes(std::span(bytes));
  return policy.restore(bytes.size(), [&](std::span<std::byte> into) -> Result<size_t> {
    const std::span<const std::byte> next = left.first(std::min(left.size(), into.size()));
    std::copy(next.begin(), next.end(), into.begin());
    left = left.subspan(next.size());
    return next.size();
  });
}

}  // namespace penstock::cache
