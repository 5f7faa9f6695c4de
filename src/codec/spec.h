#pragma once

#include "penstock/frame.h"

namespace penstock::codec {

inline constexpr int kLz4LevelMax = 12;
inline constexpr int kZstdLevelMax = 19;
inline constexpr int kZstdLevelDefault = 3;

// kInvalid unless the codec is known and the level within its range.
Result<void> check_spec(const CodecSpec& spec);

}  // namespace penstock::codec
