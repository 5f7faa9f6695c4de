#include "data/tar.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "penstock/units.h"

namespace penstock::data {

namespace {

constexpr size_t kBlockBytes = kTarBlockBytes;
constexpr uint64_t kNameRecordBytesMax = kMiB;  // Of a long name or a pax header.

struct FieldAt {
  size_t offset;
  size_t length;
};
constexpr FieldAt kName = {0, 100};
constexpr FieldAt kSize = {124, 12};
constexpr FieldAt kChecksum = {148, 8};
constexpr size_t kTypeAt = 156;
constexpr FieldAt kMagicField = {257, 6};
constexpr FieldAt kPrefix = {345, 155};
constexpr std::string_view kPosixMagic("ustar\0", 6);

std::string_view field(std::string_view header, FieldAt at) {
  return header.substr(at.offset, at.length);
}

// Up to the first NUL.
std::string_view text_field(std::string_view header, FieldAt at) {
  const std::string_view bytes = field(header, at);
  return bytes.substr(0, bytes.find('\0'));
}

// Octal digits with spaces around them, up to the first NUL; nothing at all is 0.
std::optional<uint64_t> parse_octal(std::string_view bytes) {
  bytes = bytes.substr(0, bytes.find('\0'));
  const size_t begin = bytes.find_first_not_of(' ');
  if (begin == std::string_view::npos) return 0;
  const size_t end = bytes.find_last_not_of(' ') + 1;
  uint64_t value = 0;
  for (const char c : bytes.substr(begin, end - begin)) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

// Octal, or, where the first byte says so, a big-endian number.
std::optional<uint64_t> parse_number(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if ((first & 0x80) == 0) return parse_octal(bytes);
  uint64_t value = first & 0x7f;
  for (const char c : bytes.substr(1)) {
    if (value >> 48 != 0) return std::nullopt;  // Far more than any shard has; negative ones too.
    value = value << 8 | static_cast<uint8_t>(c);
  }
  return value;
}

bool is_zero(std::string_view block) {
  return std::ranges::all_of(block, [](char c) { return c == 0; });
}

// Of a block's bytes: those of a word are added side by side, in lanes of 16 bits.
uint64_t sum_of_bytes(std::string_view block) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  static_assert(kBlockBytes / 8 * 2 * 0xff < 1 << 16, "no lane overflows");
  uint64_t lanes = 0;
  for (size_t at = 0; at < kBlockBytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, block.data() + at, 8);
    lanes += (word & kEven) + (word >> 8 & kEven);
  }
  return (lanes & 0xffff) + (lanes >> 16 & 0xffff) + (lanes >> 32 & 0xffff) + (lanes >> 48);
}

bool checksum_is_right(std::string_view header) {
  const std::string_view own = field(header, kChecksum);
  const std::optional<uint64_t> stored = parse_octal(own);
  if (!stored) return false;
  uint64_t sum = sum_of_bytes(header) + own.size() * ' ';
  for (const char c : own) sum -= static_cast<uint8_t>(c);
  if (*stored == sum) return true;
  // Old writers summed signed bytes: those above 127 count 256 less.
  uint64_t high = 0;
  for (const char c : header) high += static_cast<uint8_t>(c) >> 7;
  for (const char c : own) high -= static_cast<uint8_t>(c) >> 7;
  return *stored + 256 * high == sum;
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain_name(std::string_view header) {
  std::string name;
  // Only POSIX has a prefix there; GNU keeps times.
  const bool has_prefix = field(header, kMagicField) == kPosixMagic && header[kPrefix.offset] != 0;
  if (has_prefix) name = fmt::format("{}/", text_field(header, kPrefix));
  name += text_field(header, kName);
  return name;
}

bool is_regular(char type) {
  return type == '0' || type == '\0' || type == '7';
}

}  // namespace

std::optional<PlainTarHeader> read_plain_tar_header(std::span<const std::byte> block) {
  if (block.size() < kBlockBytes) return std::nullopt;
  const std::string_view header(reinterpret_cast<const char*>(block.data()), kBlockBytes);
  const std::optional<uint64_t> size = parse_number(field(header, kSize));
  if (!size || !is_regular(header[kTypeAt]) || !checksum_is_right(header)) return std::nullopt;
  return PlainTarHeader{plain_name(header), *size};
}

Error TarParser::corrupt(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, fmt::format("tar, at offset {}: {}", at_, what));
}

std::optional<ShardParser::Wanted> TarParser::wants() const {
  if (state_ == State::kEnd) return std::nullopt;
  return Wanted{at_, state_ == State::kHeader ? kBlockBytes : body_bytes_};
}

Result<void> TarParser::end_at(uint64_t size) {
  if (state_ == State::kHeader && size == at_ && !awaits_member_) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("tar: cut off: it has {} bytes, and goes on at least to {}{}", size,
                                wants()->end(), name_.empty() ? "" : ", after '" + name_ + "'"));
}

Result<void> TarParser::take(std::span<const std::byte> bytes) {
  if (state_ == State::kHeader) return take_header(bytes);
  const std::string_view body(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (state_) {
    case State::kLongName:
      long_name_ = body.substr(0, body.find('\0'));
      break;
    case State::kPax:
      PENSTOCK_TRY(take_pax(body, local_));
      break;
    case State::kGlobalPax:
      PENSTOCK_TRY(take_pax(body, global_));
      break;
    default:
      break;
  }
  state_ = State::kHeader;
  at_ += whole_blocks(bytes.size());
  return {};
}

Result<void> TarParser::take_header(std::span<const std::byte> bytes) {
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (header[0] == 0 && is_zero(header)) {
    state_ = State::kEnd;
    return {};
  }
  if (!checksum_is_right(header)) return corrupt("no header of a tar (its checksum is wrong)");
  const std::optional<uint64_t> size = parse_number(field(header, kSize));
  if (!size) return corrupt("a header whose size is no number");
  switch (header[kTypeAt]) {
    case 'L':
      return take_extension(State::kLongName, *size);
    case 'K':
      return take_extension(State::kLongLink, *size);
    case 'x':
    case 'X':
      return take_extension(State::kPax, *size);
    case 'g':
      return take_extension(State::kGlobalPax, *size);
    default:
      return take_member(header[kTypeAt], header, *size);
  }
}

Result<void> TarParser::take_extension(State kind, uint64_t size) {
  if (size > kNameRecordBytesMax) {
    return corrupt(fmt::format("a name or an extended header of {} bytes", size));
  }
  at_ += kBlockBytes;
  awaits_member_ = awaits_member_ || kind != State::kGlobalPax;
  if (size == 0) return {};
  state_ = kind;
  body_bytes_ = size;
  return {};
}

Result<void> TarParser::take_member(char type, std::string_view header, uint64_t size) {
  awaits_member_ = false;
  const Extended extended = std::exchange(local_, {});
  const std::string long_name = std::exchange(long_name_, {});
  const bool is_link_or_device = type >= '1' && type <= '6';
  if (is_link_or_device) return go_to_next_header(0);

  std::string name;
  if (extended.path) {
    name = *extended.path;
  } else if (!long_name.empty()) {
    name = long_name;
  } else if (global_.path) {
    name = *global_.path;
  } else {
    name = plain_name(header);
  }
  if (type == '\0' && name.ends_with('/')) return go_to_next_header(0);  // An old writer's folder.
  const uint64_t bytes = extended.size ? *extended.size : global_.size.value_or(size);
  if (type == 'S' || (is_regular(type) && (extended.sparse || global_.sparse))) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("tar, at offset {}: '{}' is a sparse file; write the archive "
                                  "without --sparse",
                                  at_, name));
  }
  const uint64_t data_at = at_ + kBlockBytes;
  PENSTOCK_TRY(go_to_next_header(bytes));
  if (!is_regular(type)) return {};
  name_ = std::move(name);
  return visit_({name_, data_at, bytes});
}

Result<void> TarParser::go_to_next_header(uint64_t data_bytes) {
  if (data_bytes > kShardBytesMax - at_ - 2 * kBlockBytes) {
    return corrupt(fmt::format("a file of {} bytes", data_bytes));
  }
  at_ += kBlockBytes + whole_blocks(data_bytes);
  return {};
}

// Records of the form "LENGTH KEY=VALUE\n", where LENGTH is that of the whole record.
Result<void> TarParser::take_pax(std::string_view body, Extended& into) const {
  while (!body.empty() && body[0] != '\0') {
    const size_t space = body.find(' ');
    const std::optional<uint64_t> length =
        space == std::string_view::npos ? std::nullopt : parse_decimal(body.substr(0, space));
    if (!length || *length > body.size() || *length <= space + 1 || body[*length - 1] != '\n') {
      return corrupt("an extended header that is none");
    }
    const std::string_view record = body.substr(space + 1, *length - space - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return corrupt("an extended header that is none");
    PENSTOCK_TRY(take_pax_record(record.substr(0, equals), record.substr(equals + 1), into));
    body.remove_prefix(*length);
  }
  return {};
}

Result<void> TarParser::take_pax_record(std::string_view key, std::string_view value,
                                        Extended& into) const {
  if (key == "path") {
    // An empty value takes back what was said before.
    into.path = value.empty() ? std::nullopt : std::optional<std::string>(value);
  } else if (key == "size") {
    into.size = parse_decimal(value);
    if (!into.size && !value.empty()) return corrupt("an extended header whose size is no number");
  } else if (key.starts_with("GNU.sparse.")) {
    into.sparse = true;
  }
  return {};
}

}  // namespace penstock::data
