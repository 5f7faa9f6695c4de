// What a policy has learnt, as bytes: docs/formats/cache-index.md.
#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <span>

#include "cache/turn_policy.h"
#include "penstock/frame.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kMagic = 0x78646e692d6e6570;  // "pen-indx"
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kWeightsBytes = sizeof(Intervals::Weights);
constexpr size_t kEntryBytes = 48;
constexpr size_t kGhostBytes = 20;
constexpr size_t kSumBytes = 8;
// Whether its file is there must be seen anew.
constexpr uint32_t kKeptFlags = Entry::kSaid | Entry::kUnused;
constexpr size_t kBytesMin = kHeaderBytes + kWeightsBytes + kSumBytes;

class Writer {
 public:
  explicit Writer(size_t bytes) : out_(bytes, '\0') {}

  template <std::unsigned_integral T>
  void put(T value) {
    char* to = &out_[at_];
    for (size_t i = 0; i < sizeof(T); ++i) {
      to[i] = static_cast<char>((uint64_t{value} >> (8 * i)) & 0xff);
    }
    at_ += sizeof(T);
  }
  void put(float value) { put(std::bit_cast<uint32_t>(value)); }
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
  // With the checksum of everything before.
  std::string finish() && {
    put(codec::hash_bytes(std::as_bytes(std::span(out_)).first(at_)));
    return std::move(out_);
  }

 private:
  std::string out_;
  size_t at_ = 0;
};

// Requires that what is asked for is there: the length is checked before.
class Reader {
 public:
  explicit Reader(const char* at) : at_(at) {}

  template <std::unsigned_integral T>
  T get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= uint64_t{static_cast<uint8_t>(at_[i])} << (8 * i);
    }
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  float get_float() { return std::bit_cast<float>(get<uint32_t>()); }
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

 private:
  const char* at_;
};

struct Header {
  uint64_t entries = 0;
  uint64_t ghosts = 0;
  uint64_t clock = 0;
  float late = 0;
  float known = 0;
};

Error corrupt(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("index of the cache: {}", what));
}

bool makes_sense(const Turn& turn) {
  return turn.count == 0 ? turn.bytes == 0 : turn.bytes > 0 && turn.bytes < 1e30F;
}

bool makes_sense(const Entry& entry, uint64_t clock) {
  return entry.since <= clock && entry.last <= clock && makes_sense(entry.turn);
}

Result<Header> read_header(Reader& reader, const std::string& bytes) {
  if (bytes.size() < kBytesMin || reader.get<uint64_t>() != kMagic) return corrupt("not one");
  const auto version = reader.get<uint32_t>();
  if (version != kVersion) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("index of the cache: version {}, not {}", version, kVersion));
  }
  reader.get<uint32_t>();
  Header header;
  header.entries = reader.get<uint64_t>();
  header.ghosts = reader.get<uint64_t>();
  header.clock = reader.get<uint64_t>();
  header.late = reader.get_float();
  header.known = reader.get_float();
  const uint64_t left = bytes.size() - kBytesMin;
  if (header.entries > left / kEntryBytes || header.ghosts > left / kGhostBytes ||
      header.entries * kEntryBytes + header.ghosts * kGhostBytes != left) {
    return corrupt("of the wrong length");
  }
  const auto covered = std::as_bytes(std::span(bytes)).first(bytes.size() - kSumBytes);
  Reader sum(bytes.data() + covered.size());
  if (sum.get<uint64_t>() != codec::hash_bytes(covered)) return corrupt("wrong checksum");
  if (!(header.late >= 0 && header.late <= header.known && header.known <= 1e6F)) {
    return corrupt("makes no sense");
  }
  return header;
}

}  // namespace

std::string TurnPolicy::snapshot() const {
  uint64_t ghosts = 0;
  for (const Ghosts::Slot& slot : ghosts_.slots()) ghosts += slot.since_and_tag != 0;
  Writer writer(kBytesMin + table_.size() * kEntryBytes + ghosts * kGhostBytes);
  writer.put(kMagic);
  writer.put(kVersion);
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
  return std::move(writer).finish();
}

Result<void> TurnPolicy::restore(const std::string& snapshot) {
  Reader reader(snapshot.data());
  const Header header = PENSTOCK_TRY(read_header(reader, snapshot));
  TurnPolicy fresh;
  fresh.capacity_ = capacity_;
  fresh.clock_ = header.clock;
  fresh.late_ = header.late;
  fresh.known_ = header.known;
  Intervals::Weights weights{};
  for (float& weight : weights) weight = reader.get_float();
  if (!fresh.intervals_.set_weights(weights)) return corrupt("makes no sense");
  fresh.table_.reserve(header.entries);
  for (uint64_t i = 0; i < header.entries; ++i) {
    const Entry entry = reader.get_entry();
    Entry* place = fresh.table_.insert(entry.id);
    if (place == nullptr || !makes_sense(entry, header.clock)) return corrupt("makes no sense");
    *place = entry;
    fresh.used_blocks_ += entry.blocks;
  }
  fresh.intervals_.set_memory(header.entries / 4);
  for (uint64_t i = 0; i < header.ghosts; ++i) {
    const auto at = reader.get<uint32_t>();
    const auto since_and_tag = reader.get<uint64_t>();
    const Turn turn = reader.get_turn();
    if (at >= Ghosts::kSlots || !makes_sense(turn)) return corrupt("makes no sense");
    fresh.ghosts_.set_slot(at, {.since_and_tag = since_and_tag, .turn = turn});
  }
  *this = std::move(fresh);
  return {};
}

}  // namespace penstock::cache
