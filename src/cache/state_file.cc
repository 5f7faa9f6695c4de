#include "cache/state_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "cache/directory_open.h"
#include "penstock/frame.h"

namespace penstock::cache {

namespace {

static_assert(std::endian::native == std::endian::little, "the state is written as it lies");

constexpr std::array<char, 8> kStateMagic = {'P', 'N', 'S', 'T', 'C', 'S', 'T', 'A'};
constexpr uint32_t kStateVersion = 1;
constexpr uint32_t kKnown = 1;
constexpr uint32_t kClean = 2;

struct StateHeader {
  std::array<char, 8> magic = kStateMagic;
  uint64_t checksum = 0;  // Of the whole file with this as zero.
  uint32_t version = kStateVersion;
  uint32_t flags = 0;
  uint64_t counter = 0;
  uint64_t used = 0;
  uint64_t limit = 0;
  uint64_t entries = 0;
  uint64_t open_bytes = 0;
  uint64_t invited_bytes = 0;
  uint64_t hit_bytes = 0;
  uint64_t miss_bytes = 0;
  int64_t since_s = 0;
  uint32_t members = 0;
  uint32_t invited = 0;
  uint32_t rows = 0;
  uint32_t zero = 0;
  std::array<char, 64> evictor{};  // Padded with zeros.
};
static_assert(sizeof(StateHeader) == 176);

struct RawRow {
  uint64_t member = 0;
  uint64_t ceiling = 0;
  uint64_t ceiling_max = 0;
  uint64_t offset = 0;
  uint32_t file = 0;
  uint32_t changed = 0;
};
static_assert(sizeof(RawRow) == 40);
static_assert(sizeof(EntryId) == 16);

constexpr size_t kStateBytesMax =
    sizeof(StateHeader) + Policy::kInvitedMax * sizeof(EntryId) + kMembersMax * sizeof(RawRow);

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint64_t checksum_of(const StateHeader& header, std::span<const std::byte> body) {
  StateHeader cleared = header;
  cleared.checksum = 0;
  return codec::hash_bytes(body, codec::hash_bytes(std::as_bytes(std::span(&cleared, 1))));
}

StateHeader header_of(const State& state) {
  StateHeader header;
  header.flags = (state.known ? kKnown : 0) | (state.clean ? kClean : 0);
  header.counter = state.counter;
  header.used = state.used;
  header.limit = state.limit;
  header.entries = state.entries;
  header.open_bytes = state.open_bytes;
  header.invited_bytes = state.invited_bytes;
  header.hit_bytes = state.totals.hit_bytes;
  header.miss_bytes = state.totals.miss_bytes;
  header.since_s = state.totals.since_s;
  header.members = state.members;
  header.invited = static_cast<uint32_t>(state.invited.size());
  header.rows = static_cast<uint32_t>(state.rows.size());
  std::memcpy(header.evictor.data(), state.evictor.data(),
              std::min(state.evictor.size(), header.evictor.size()));
  return header;
}

State state_of(const StateHeader& header) {
  State state;
  state.evictor.assign(header.evictor.data(),
                       ::strnlen(header.evictor.data(), header.evictor.size()));
  state.counter = header.counter;
  state.known = (header.flags & kKnown) != 0;
  state.clean = (header.flags & kClean) != 0;
  state.used = header.used;
  state.limit = header.limit;
  state.entries = header.entries;
  state.open_bytes = header.open_bytes;
  state.invited_bytes = header.invited_bytes;
  state.totals = {header.hit_bytes, header.miss_bytes, header.since_s};
  state.members = header.members;
  return state;
}

Error corrupt_state(const char* why) {
  return make_error(ErrorCode::kCorrupt, std::string("the state of the cache: ") + why);
}

// The header, of a file whose length and checksum are as it says.
Result<StateHeader> check_header(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(StateHeader)) return corrupt_state("cut off");
  StateHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kStateMagic) return corrupt_state("not one");
  const std::span<const std::byte> body = bytes.subspan(sizeof(header));
  if (header.checksum != checksum_of(header, body)) return corrupt_state("its checksum is wrong");
  if (header.version != kStateVersion) {
    return make_error(ErrorCode::kUnsupported, "the state of the cache is of a newer version");
  }
  if (header.invited > Policy::kInvitedMax || header.rows > kMembersMax ||
      body.size() != header.invited * sizeof(EntryId) + header.rows * sizeof(RawRow)) {
    return corrupt_state("its length is wrong");
  }
  return header;
}

}  // namespace

const StateRow* State::row_of(uint64_t member) const {
  for (const StateRow& row : rows) {
    if (row.member == member) return &row;
  }
  return nullptr;
}

uint64_t member_hash(std::string_view member) {
  return codec::hash_bytes(std::as_bytes(std::span(member)));
}

std::string encode_state(const State& state) {
  std::string body;
  for (const EntryId& id : state.invited) append(body, id);
  for (const StateRow& row : state.rows) {
    append(body, RawRow{.member = row.member,
                        .ceiling = row.ceiling,
                        .ceiling_max = row.ceiling_max,
                        .offset = row.consumed.offset,
                        .file = row.consumed.file,
                        .changed = row.changed});
  }
  StateHeader header = header_of(state);
  header.checksum = checksum_of(header, std::as_bytes(std::span(body)));
  std::string out;
  append(out, header);
  return out + body;
}

Result<State> parse_state(std::span<const std::byte> bytes) {
  const StateHeader header = PENSTOCK_TRY(check_header(bytes));
  State state = state_of(header);
  const std::byte* at = bytes.data() + sizeof(header);
  state.invited.resize(header.invited);
  if (header.invited > 0) std::memcpy(state.invited.data(), at, header.invited * sizeof(EntryId));
  at += header.invited * sizeof(EntryId);
  for (uint32_t i = 0; i < header.rows; ++i, at += sizeof(RawRow)) {
    RawRow raw;
    std::memcpy(&raw, at, sizeof(raw));
    state.rows.push_back({.member = raw.member,
                          .ceiling = raw.ceiling,
                          .changed = raw.changed,
                          .ceiling_max = raw.ceiling_max,
                          .consumed = {raw.file, raw.offset}});
  }
  return state;
}

Result<State> read_state(io::FileSystem& fs, const std::string& path) {
  const Result<std::string> bytes = read_plain_file(fs, path, kStateBytesMax);
  // The next state is renamed over whatever stands there.
  if (!bytes.ok() && bytes.error().code == ErrorCode::kInvalid)
    return corrupt_state("not a plain file");
  if (!bytes.ok()) return bytes.error();
  return parse_state(std::as_bytes(std::span(*bytes)));
}

namespace {

Result<void> write_new(io::FileSystem& fs, const std::string& path,
                       const std::function<Result<void>(const FileSink&)>& write) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(
      fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kMustNotExist}));
  uint64_t at = 0;
  const FileSink sink = [&](std::span<const std::byte> bytes) -> Result<void> {
    PENSTOCK_TRY(file->write(at, bytes));
    at += bytes.size();
    return {};
  };
  PENSTOCK_TRY(write(sink));
  return file->close();
}

}  // namespace

Result<void> replace_file(io::FileSystem& fs, const std::string& temporary, const std::string& path,
                          std::string_view contents) {
  return replace_file(fs, temporary, path, [&](const FileSink& sink) {
    return sink(std::as_bytes(std::span(contents)));
  });
}

Result<void> replace_file(io::FileSystem& fs, const std::string& temporary, const std::string& path,
                          const std::function<Result<void>(const FileSink&)>& write) {
  Result<void> done = write_new(fs, temporary, write);
  if (done.ok()) done = fs.rename(temporary, path);
  if (!done.ok()) (void)fs.remove(temporary);
  return done;
}

}  // namespace penstock::cache
