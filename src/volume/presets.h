// What kinds of data ask of a volume: one table, for `volume create --preset` and its help.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "penstock/frame.h"
#include "penstock/units.h"

namespace penstock::volume {

struct Preset {
  std::string_view name;
  std::string_view what;
  uint64_t block_bytes;
  codec::CodecSpec codec;
  Nanoseconds retention;
};

inline constexpr std::array kPresets = {
    Preset{"shards", "tar and TFRecord shards of 100 MiB to 1 GiB", 4 * kMiB,
           {codec::Codec::kLz4}, Nanoseconds(0)},
    Preset{"images", "millions of small files", 256 * kKiB, {codec::Codec::kLz4}, Nanoseconds(0)},
    Preset{"video", "files of gigabytes that are compressed already", 8 * kMiB,
           {codec::Codec::kNone}, Nanoseconds(0)},
    Preset{"checkpoints", "files of 1 to 100 GiB, kept for 30 days after they were deleted",
           4 * kMiB, {codec::Codec::kZstd}, std::chrono::hours(30 * 24)},
    Preset{"embeddings", "tables that are read at random", 64 * kKiB, {codec::Codec::kNone},
           Nanoseconds(0)},
    Preset{"logs", "small appends", 256 * kKiB, {codec::Codec::kZstd}, Nanoseconds(0)},
};

inline const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

}  // namespace penstock::volume
