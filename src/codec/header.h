// The 40 bytes in front of every frame, and the checksum in them. docs/formats/frame.md is the
// specification.
#pragma once

#include "penstock/frame.h"

namespace penstock::codec {

using HeaderBytes = std::span<std::byte, kFrameHeaderBytes>;
using ConstHeaderBytes = std::span<const std::byte, kFrameHeaderBytes>;

inline constexpr uint8_t kFrameVersion = 1;

// What no version will exceed. More than kFrameBytesMax, for what later versions may add to a
// payload that does not shrink, such as an authentication tag.
inline constexpr size_t kStoredBytesMax = kFrameBytesMax + 4 * kKiB;

// Writes all fields; the checksum as it stands in `header`.
void write_header(HeaderBytes out, const FrameHeader& header);
void write_checksum(HeaderBytes header, uint64_t checksum);

// The checksum that a frame of these header fields and this payload must carry to be `identity`.
// The checksum field itself is not read.
uint64_t frame_checksum(ConstHeaderBytes header, std::span<const std::byte> payload,
                        const FrameIdentity& identity);

// The fields at the front of `stored`, of whatever version. kCorrupt when it is too short, has not
// the magic, or claims a payload larger than any version may have.
Result<FrameHeader> parse_header(std::span<const std::byte> stored);

// Whether this program can decode such a frame: kUnsupported when a newer version made it, kCorrupt
// when the fields contradict each other. Requires that parse_header took it.
Result<void> check_header(ConstHeaderBytes bytes);

}  // namespace penstock::codec
