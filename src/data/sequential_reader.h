// Shards as streams of bytes, decompressed where they are compressed.
#pragma once

#include <memory>

#include "data/window_reader.h"
#include "penstock/data.h"

namespace penstock::data {

// By the first bytes. kUnsupported for what other compressors make.
Result<Compression> detect_compression(std::span<const std::byte> first_bytes);

// `input` outlives it.
Result<std::unique_ptr<SequentialReader>> make_sequential_reader(WindowReader& input,
                                                                 Compression compression);

}  // namespace penstock::data
