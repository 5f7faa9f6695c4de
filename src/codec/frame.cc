#include "penstock/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/compress.h"
#include "codec/header.h"
#include "codec/spec.h"

namespace penstock::codec {
namespace {

std::string describe(const FrameIdentity& identity) {
  return fmt::format("frame at {} of object {:016x}{:016x}", identity.offset, identity.object_high,
                     identity.object_low);
}

Error corrupt_frame(const FrameIdentity& identity, std::string_view why) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", describe(identity), why));
}

FrameIdentity at_offset(FrameIdentity block, size_t offset) {
  block.offset += offset;
  return block;
}

// Puts the payload behind the header's place and says how it is stored.
Result<FrameHeader> write_payload(std::span<const std::byte> raw, std::span<std::byte> payload,
                                  const CodecSpec& spec) {
  FrameHeader header{.codec = spec.codec, .raw_bytes = static_cast<uint32_t>(raw.size())};
  if (spec.codec != Codec::kNone) {
    // One byte less than raw: what fits there has shrunk.
    const size_t length = PENSTOCK_TRY(compress(raw, payload.first(raw.size() - 1), spec));
    header.stored_bytes = static_cast<uint32_t>(length);
  }
  if (header.stored_bytes == 0) {
    std::memcpy(payload.data(), raw.data(), raw.size());
    header.codec = Codec::kNone;
    header.stored_bytes = header.raw_bytes;
  }
  return header;
}

// Requires a verified frame and `out` of raw_bytes.
Result<void> decode_payload(std::span<const std::byte> stored, std::span<std::byte> out,
                            const FrameHeader& header, const FrameIdentity& identity) {
  const auto payload = stored.subspan(kFrameHeaderBytes, header.stored_bytes);
  const Result<void> done = decompress(header.codec, payload, out);
  if (!done) return done.error().with_context(describe(identity));
  return {};
}

Result<void> check_block(std::span<const std::byte> raw, std::span<std::byte> out,
                         size_t frame_bytes) {
  if (!std::has_single_bit(frame_bytes) || frame_bytes < kFrameBytesMin ||
      frame_bytes > kFrameBytesMax) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("frames of {} bytes: expected a power of two from {} to {}",
                                  frame_bytes, kFrameBytesMin, kFrameBytesMax));
  }
  if (raw.empty()) return make_error(ErrorCode::kInvalid, "a block of no bytes");
  if (out.size() < frames_bound(raw.size(), frame_bytes)) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} bytes of room to encode {} bytes; frames_bound says {}",
                                  out.size(), raw.size(), frames_bound(raw.size(), frame_bytes)));
  }
  return {};
}

}  // namespace

size_t frame_bound(size_t raw_bytes) {
  return kFrameHeaderBytes + raw_bytes;
}

size_t frames_bound(size_t raw_bytes, size_t frame_bytes) {
  // The smallest valid size makes any other harmless here; encode_frames refuses it.
  const size_t unit = std::max(frame_bytes, kFrameBytesMin);
  const size_t frames = raw_bytes / unit + (raw_bytes % unit != 0 ? 1 : 0);
  return raw_bytes + frames * kFrameHeaderBytes;
}

Result<size_t> encode_frame(std::span<const std::byte> raw, std::span<std::byte> out,
                            const FrameIdentity& identity, const CodecSpec& spec) {
  if (raw.empty() || raw.size() > kFrameBytesMax) {
    return make_error(ErrorCode::kInvalid, fmt::format("a frame of {} bytes: expected 1 to {}",
                                                       raw.size(), kFrameBytesMax));
  }
  if (out.size() < frame_bound(raw.size())) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} bytes of room to encode {} bytes; frame_bound says {}",
                                  out.size(), raw.size(), frame_bound(raw.size())));
  }
  PENSTOCK_TRY(check_spec(spec));

  const auto payload = out.subspan(kFrameHeaderBytes);
  const FrameHeader header = PENSTOCK_TRY(write_payload(raw, payload, spec));
  const auto header_bytes = out.first<kFrameHeaderBytes>();
  write_header(header_bytes, header);
  write_checksum(header_bytes,
                 frame_checksum(header_bytes, payload.first(header.stored_bytes), identity));
  return header.frame_bytes();
}

Result<FrameHeader> read_frame_header(std::span<const std::byte> stored) {
  const FrameHeader header = PENSTOCK_TRY(parse_header(stored));
  PENSTOCK_TRY(check_header(stored.first<kFrameHeaderBytes>()));
  return header;
}

// The order matters: whatever is damaged is corrupt, also when the damage made it look like something newer,
// and no decompressor sees bytes that were not verified.
Result<FrameHeader> verify_frame(std::span<const std::byte> stored, const FrameIdentity& identity) {
  const Result<FrameHeader> header = parse_header(stored);
  if (!header) return header.error().with_context(describe(identity));
  if (stored.size() < header->frame_bytes()) {
    return corrupt_frame(identity, fmt::format("cut off: {} of {} bytes are there", stored.size(),
                                               header->frame_bytes()));
  }
  const auto header_bytes = stored.first<kFrameHeaderBytes>();
  const auto payload = stored.subspan(kFrameHeaderBytes, header->stored_bytes);
  if (frame_checksum(header_bytes, payload, identity) != header->checksum) {
    return corrupt_frame(identity, "the checksum differs: damaged, or not the frame of this place");
  }
  const Result<void> usable = check_header(header_bytes);
  if (!usable) return usable.error().with_context(describe(identity));
  return header;
}

Result<FrameHeader> decode_frame(std::span<const std::byte> stored, std::span<std::byte> out,
                                 const FrameIdentity& identity) {
  const FrameHeader header = PENSTOCK_TRY(verify_frame(stored, identity));
  if (out.size() < header.raw_bytes) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{}: {} bytes of room to decode {}", describe(identity),
                                  out.size(), header.raw_bytes));
  }
  PENSTOCK_TRY(decode_payload(stored, out.first(header.raw_bytes), header, identity));
  return header;
}

Result<size_t> encode_frames(std::span<const std::byte> raw, std::span<std::byte> out,
                             const FrameIdentity& identity, const CodecSpec& spec,
                             size_t frame_bytes) {
  PENSTOCK_TRY(check_block(raw, out, frame_bytes));
  size_t written = 0;
  for (size_t offset = 0; offset < raw.size(); offset += frame_bytes) {
    const auto part = raw.subspan(offset, std::min(frame_bytes, raw.size() - offset));
    written +=
        PENSTOCK_TRY(encode_frame(part, out.subspan(written), at_offset(identity, offset), spec));
  }
  return written;
}

Result<void> decode_frames(std::span<const std::byte> stored, std::span<std::byte> out,
                           const FrameIdentity& identity) {
  if (out.empty()) return corrupt_frame(identity, "a block of no bytes");
  size_t filled = 0;
  while (filled < out.size()) {
    const FrameIdentity here = at_offset(identity, filled);
    const FrameHeader header = PENSTOCK_TRY(verify_frame(stored, here));
    if (header.raw_bytes > out.size() - filled) {
      return corrupt_frame(here, fmt::format("{} raw bytes where the block has {} left",
                                             header.raw_bytes, out.size() - filled));
    }
    PENSTOCK_TRY(decode_payload(stored, out.subspan(filled, header.raw_bytes), header, here));
    filled += header.raw_bytes;
    stored = stored.subspan(header.frame_bytes());
  }
  if (!stored.empty()) {
    return corrupt_frame(at_offset(identity, filled),
                         fmt::format("{} bytes after the block's last frame", stored.size()));
  }
  return {};
}

}  // namespace penstock::codec
