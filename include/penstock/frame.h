// Frames: the smallest unit that is compressed, checksummed and verified. A block of data is stored
// as one or more frames one after the other; each can be read and verified alone.
// docs/formats/frame.md gives the bytes.
//
// The checksum (xxh3-64) covers the stored bytes and is seeded with who the frame is: the caller's
// FrameIdentity and the header. So a flipped bit, a torn write, and a perfectly good frame in the
// wrong place are all detected.
//
// Threads: all functions are pure and may run anywhere at once. Compressors keep their working
// memory per thread (100 KiB to decode, up to 20 MiB to encode at the highest levels), so that
// nothing is allocated per frame; kNoMemory when even that cannot be had.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::codec {

enum class Codec : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };

// "none", "lz4", "zstd".
std::string_view codec_name(Codec codec);

struct CodecSpec {
  Codec codec = Codec::kLz4;
  // zstd: 1 to 19, 0 meaning 3. lz4: 0 (fast) or 1 to 12 (high compression). none: 0.
  int level = 0;
};
// "none", "lz4", "lz4:9", "zstd", "zstd:7". kInvalid names what was expected.
Result<CodecSpec> parse_codec(std::string_view text);

inline constexpr size_t kFrameHeaderBytes = 40;
// Smallest frame size a writer may choose (the last may be shorter).
inline constexpr size_t kFrameBytesMin = 256 * kKiB;
// Largest raw size of any frame; decoders refuse more.
inline constexpr size_t kFrameBytesMax = kMiB;
inline constexpr size_t kFrameBytesDefault = 512 * kKiB;

// Who a frame is. Two frames that could be mistaken for each other must differ here.
struct FrameIdentity {
  std::array<std::byte, 16> space{};  // Which volume or cache: a UUID.
  uint64_t object_high = 0;           // Which object in it,
  uint64_t object_low = 0;
  uint64_t offset = 0;  // and where in the object's raw bytes this frame begins.
};

// What a reader that does not know a flag bit may still do. No bit is defined yet.
inline constexpr uint16_t kFlagsIncompatible = 0x00ff;  // Nothing: the frame is refused.
inline constexpr uint16_t kFlagsReadOnly = 0x0f00;      // Decode it, and copy it as it is.
inline constexpr uint16_t kFlagsCompatible = 0xf000;    // Everything.

struct FrameHeader {
  Codec codec = Codec::kNone;  // What was really used: kNone when the data did not shrink.
  uint16_t flags = 0;
  uint32_t key_id = 0;  // Which key encrypted it; 0, the only value so far: none.
  uint32_t raw_bytes = 0;
  uint32_t stored_bytes = 0;  // Of the payload that follows the header.
  uint64_t checksum = 0;
  size_t frame_bytes() const { return kFrameHeaderBytes + stored_bytes; }
  // False when a newer version put something in that decoding and encoding anew would lose.
  bool rewritable() const { return (flags & kFlagsReadOnly) == 0; }
};

// Enough room for encode_frame of `raw_bytes`, and for encode_frames of them in frames of
// `frame_bytes`, where those are sizes that these functions accept.
size_t frame_bound(size_t raw_bytes);
size_t frames_bound(size_t raw_bytes, size_t frame_bytes);

// Writes one frame to the front of `out` and returns its length. Data that compression does not
// shrink is stored raw. `raw` and `out` must not overlap. kInvalid when raw is empty or above
// kFrameBytesMax, the level is out of range, or `out` is smaller than frame_bound.
Result<size_t> encode_frame(std::span<const std::byte> raw, std::span<std::byte> out,
                            const FrameIdentity& identity, const CodecSpec& spec);

// The header at the front of `stored`, checked for sense but not for identity or damage: for
// finding the next frame. The payload need not be there. kCorrupt when it is not a frame or claims
// more than the format allows; kUnsupported when it says that a newer version made it.
Result<FrameHeader> read_frame_header(std::span<const std::byte> stored);

// Verifies and decodes the one frame at the front of `stored` into the front of `out`; returns its
// header. Nothing outside `stored` is read and nothing beyond raw_bytes of `out` is written;
// nothing is allocated that grows with what the header claims. `stored` and `out` must not overlap.
// kCorrupt: not this frame, not here, or damaged; `out` is then unspecified. The other answers are
// given only about a frame that is this one and undamaged: kUnsupported when a newer version made
// it, kInvalid when `out` is smaller than raw_bytes.
Result<FrameHeader> decode_frame(std::span<const std::byte> stored, std::span<std::byte> out,
                                 const FrameIdentity& identity);

// The first half of that: its header, once all of it was verified. Where it was stored as it was
// (Codec::kNone), its bytes follow the header.
Result<FrameHeader> verify_frame(std::span<const std::byte> stored, const FrameIdentity& identity);

// A whole block as frames of `frame_bytes` (a power of two within the bounds); frame i has the
// identity of the block with offset + i × frame_bytes. Returns the stored length. kInvalid as for
// encode_frame, but a block may be of any size above 0 and `out` must have frames_bound.
Result<size_t> encode_frames(std::span<const std::byte> raw, std::span<std::byte> out,
                             const FrameIdentity& identity, const CodecSpec& spec,
                             size_t frame_bytes = kFrameBytesDefault);

// The reverse: `stored` must hold exactly the frames of a block, and `out` be exactly its raw size.
// kCorrupt otherwise; kUnsupported as for decode_frame.
Result<void> decode_frames(std::span<const std::byte> stored, std::span<std::byte> out,
                           const FrameIdentity& identity);

// xxh3-64, the one hash of the project, with the fastest code this CPU has.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);

// The same hash, unseeded, of bytes that come in pieces.
class Hasher {
 public:
  Hasher() { reset(); }
  void reset();
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  alignas(64) std::byte state_[576];
};

}  // namespace penstock::codec
