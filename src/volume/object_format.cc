#include "volume/object_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace penstock::volume {

std::optional<meta::ObjectId> parse_object_key(std::string_view key) {
  constexpr size_t kUuidDigits = 32;
  constexpr size_t kDigits = 8;
  if (key.size() != kUuidDigits + 1 + kDigits + 1 + kDigits || key[kUuidDigits] != '/' ||
      key[kUuidDigits + 1 + kDigits] != '-') {
    return std::nullopt;
  }
  const auto number = [&](size_t from, uint32_t& into) {
    const char* const begin = key.data() + from;
    const auto [end, failed] = std::from_chars(begin, begin + kDigits, into, 16);
    return failed == std::errc() && end == begin + kDigits;
  };
  meta::ObjectId id;
  const bool right =
      number(kUuidDigits + 1, id.session) && number(kUuidDigits + 1 + kDigits + 1, id.number);
  return right ? std::optional(id) : std::nullopt;
}

std::string object_key_prefix(const VolumeUuid& space) {
  return uuid_text(space) + '/';
}

std::string object_key(const VolumeUuid& space, meta::ObjectId id) {
  return object_key_prefix(space) + fmt::format("{:08x}-{:08x}", id.session, id.number);
}

meta::ObjectId journal_object(uint64_t segment) {
  return {0, static_cast<uint32_t>(segment)};
}

codec::FrameIdentity frame_identity(const VolumeUuid& space, meta::ObjectId object,
                                    uint64_t chunk_offset, uint32_t index) {
  return {.space = space,
          .object_high = uint64_t{object.session} << 32 | object.number,
          .object_low = chunk_offset,
          .offset = uint64_t{index} * kFrameBytes};
}

Result<meta::Place> append_chunk(std::vector<std::byte>& object, const VolumeUuid& space,
                                 meta::ObjectId id, std::span<const std::byte> raw,
                                 const codec::CodecSpec& spec) {
  const uint64_t at = object.size();
  object.resize(at + codec::frames_bound(raw.size(), kFrameBytes));
  const std::span<std::byte> out = std::span(object).subspan(at);
  const Result<size_t> stored =
      codec::encode_frames(raw, out, frame_identity(space, id, at, 0), spec, kFrameBytes);
  object.resize(at + stored.value_or(0));
  if (!stored.ok()) return stored.error();
  const auto bytes = std::span<const std::byte>(object).subspan(at);
  return meta::Place{.object = id,
                     .offset = at,
                     .stored = *stored,
                     .raw = raw.size(),
                     .codec = spec.codec,
                     .checksum = PENSTOCK_TRY(chunk_checksum(bytes))};
}

uint32_t frames_of(const meta::Place& place) {
  return static_cast<uint32_t>((place.raw + kFrameBytes - 1) / kFrameBytes);
}

uint32_t frame_raw_bytes(const meta::Place& place, uint32_t index) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(kFrameBytes, place.raw - uint64_t{index} * kFrameBytes));
}

bool frames_are_even(const meta::Place& place) {
  return place.codec == codec::Codec::kNone;
}

FrameRange frame_range(const meta::Place& place, uint32_t index) {
  return {uint64_t{index} * (kFrameBytes + codec::kFrameHeaderBytes),
          codec::kFrameHeaderBytes + frame_raw_bytes(place, index)};
}

// The checksums of its frames, which each cover their bytes.
Result<uint64_t> chunk_checksum(std::span<const std::byte> stored) {
  std::vector<uint64_t> sums;
  while (!stored.empty()) {
    const codec::FrameHeader header = PENSTOCK_TRY(codec::read_frame_header(stored));
    if (header.frame_bytes() > stored.size()) {
      return make_error(ErrorCode::kCorrupt, "the last frame of a chunk is cut off");
    }
    sums.push_back(header.checksum);
    stored = stored.subspan(header.frame_bytes());
  }
  return codec::hash_bytes(std::as_bytes(std::span(sums)));
}

}  // namespace penstock::volume
