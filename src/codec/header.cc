#include "codec/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstring>

namespace penstock::codec {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{'P'}, std::byte{'S'}, std::byte{'F'},
                                             std::byte{'R'}};

// Where each field begins.
constexpr size_t kVersionAt = 4;
constexpr size_t kCodecAt = 5;
constexpr size_t kFlagsAt = 6;
constexpr size_t kKeyIdAt = 8;
constexpr size_t kRawBytesAt = 12;
constexpr size_t kStoredBytesAt = 16;
constexpr size_t kReservedAt = 20;
constexpr size_t kChecksumAt = 32;
static_assert(kChecksumAt + sizeof(uint64_t) == kFrameHeaderBytes);

template <std::unsigned_integral T>
void put_little_endian(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>((uint64_t{value} >> (8 * i)) & 0xff);
  }
}

template <std::unsigned_integral T>
T get_little_endian(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return static_cast<T>(value);
}

bool known_codec(uint8_t codec) {
  return codec <= static_cast<uint8_t>(Codec::kZstd);
}

FrameHeader get_fields(ConstHeaderBytes bytes) {
  return FrameHeader{
      .codec = static_cast<Codec>(std::to_integer<uint8_t>(bytes[kCodecAt])),
      .flags = get_little_endian<uint16_t>(&bytes[kFlagsAt]),
      .key_id = get_little_endian<uint32_t>(&bytes[kKeyIdAt]),
      .raw_bytes = get_little_endian<uint32_t>(&bytes[kRawBytesAt]),
      .stored_bytes = get_little_endian<uint32_t>(&bytes[kStoredBytesAt]),
      .checksum = get_little_endian<uint64_t>(&bytes[kChecksumAt]),
  };
}

Error corrupt(std::string detail) {
  return make_error(ErrorCode::kCorrupt, std::move(detail));
}

Error newer(std::string_view what, unsigned found, std::string_view known) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("frame made by a newer version of Penstock: {} {} (this one knows "
                                "{}); update to read it",
                                what, found, known));
}

Result<void> check_support(ConstHeaderBytes bytes, const FrameHeader& header) {
  const auto version = std::to_integer<uint8_t>(bytes[kVersionAt]);
  if (version > kFrameVersion) return newer("format", version, fmt::to_string(kFrameVersion));
  if (version == 0) return corrupt("frame header of format 0, which never was");
  if (const auto unknown = static_cast<uint16_t>(header.flags & kFlagsIncompatible); unknown != 0) {
    return newer("flags", unknown, "none");
  }
  const auto codec = static_cast<uint8_t>(header.codec);
  if (!known_codec(codec)) return newer("codec", codec, "0 to 2");
  if (header.key_id != 0) return newer("encryption key", header.key_id, "no encryption");
  return {};
}

Result<void> check_sense(ConstHeaderBytes bytes, const FrameHeader& header) {
  if (header.raw_bytes == 0 || header.raw_bytes > kFrameBytesMax) {
    return corrupt(fmt::format("frame header claims {} raw bytes; 1 to {} are allowed",
                               header.raw_bytes, kFrameBytesMax));
  }
  const bool shrunk = header.stored_bytes > 0 && header.stored_bytes < header.raw_bytes;
  const bool raw = header.stored_bytes == header.raw_bytes;
  if (header.codec == Codec::kNone ? !raw : !shrunk) {
    return corrupt(fmt::format("frame header claims {} bytes stored as {} with codec {}",
                               header.raw_bytes, header.stored_bytes, codec_name(header.codec)));
  }
  // Flags that may be ignored can give the reserved bytes a meaning, which may then be ignored too.
  const auto reserved = bytes.subspan<kReservedAt, kChecksumAt - kReservedAt>();
  const bool zero = std::ranges::all_of(reserved, [](std::byte b) { return b == std::byte{0}; });
  if (header.flags == 0 && !zero) return corrupt("frame header with reserved bytes in use");
  return {};
}

// The seed binds the payload's checksum to who and where the frame is and to every header field.
uint64_t checksum_seed(ConstHeaderBytes header, const FrameIdentity& identity) {
  constexpr size_t kIdentityBytes = 16 + 3 * sizeof(uint64_t);
  std::array<std::byte, kIdentityBytes + kChecksumAt> bytes;
  std::memcpy(bytes.data(), identity.space.data(), identity.space.size());
  put_little_endian(&bytes[16], identity.object_high);
  put_little_endian(&bytes[24], identity.object_low);
  put_little_endian(&bytes[32], identity.offset);
  std::memcpy(&bytes[kIdentityBytes], header.data(), kChecksumAt);
  return hash_bytes(bytes);
}

}  // namespace

void write_header(HeaderBytes out, const FrameHeader& header) {
  std::ranges::fill(out, std::byte{0});
  std::ranges::copy(kMagic, out.begin());
  out[kVersionAt] = std::byte{kFrameVersion};
  out[kCodecAt] = static_cast<std::byte>(header.codec);
  put_little_endian(&out[kFlagsAt], header.flags);
  put_little_endian(&out[kKeyIdAt], header.key_id);
  put_little_endian(&out[kRawBytesAt], header.raw_bytes);
  put_little_endian(&out[kStoredBytesAt], header.stored_bytes);
  write_checksum(out, header.checksum);
}

void write_checksum(HeaderBytes header, uint64_t checksum) {
  put_little_endian(&header[kChecksumAt], checksum);
}

uint64_t frame_checksum(ConstHeaderBytes header, std::span<const std::byte> payload,
                        const FrameIdentity& identity) {
  return hash_bytes(payload, checksum_seed(header, identity));
}

Result<FrameHeader> parse_header(std::span<const std::byte> stored) {
  if (stored.size() < kFrameHeaderBytes) {
    return corrupt(fmt::format("{} bytes left where a frame header of {} belongs", stored.size(),
                               kFrameHeaderBytes));
  }
  if (!std::ranges::equal(stored.first<kMagic.size()>(), kMagic)) {
    return corrupt("not a frame: it does not begin with PSFR");
  }
  const FrameHeader header = get_fields(stored.first<kFrameHeaderBytes>());
  if (header.stored_bytes > kStoredBytesMax) {
    return corrupt(fmt::format("frame header claims {} stored bytes; at most {} are allowed",
                               header.stored_bytes, kStoredBytesMax));
  }
  return header;
}

Result<void> check_header(ConstHeaderBytes bytes) {
  const FrameHeader header = get_fields(bytes);
  PENSTOCK_TRY(check_support(bytes, header));
  return check_sense(bytes, header);
}

}  // namespace penstock::codec
