// The compressors behind one interface. Working memory is kept per thread.
#pragma once

#include "penstock/frame.h"

namespace penstock::codec {

// Compresses `raw` (1 byte to kFrameBytesMax) into the front of `out` and returns the length, or 0
// when the result does not fit there. Requires a checked spec that is not kNone.
Result<size_t> compress(std::span<const std::byte> raw, std::span<std::byte> out,
                        const CodecSpec& spec);

// Fills `out` exactly from `stored`, both at most kFrameBytesMax; kCorrupt when that is not what
// `stored` holds. Safe for any bytes.
Result<void> decompress(Codec codec, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace penstock::codec
