#include "codec/spec.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace penstock::codec {
namespace {

std::optional<Codec> codec_named(std::string_view name) {
  for (Codec codec : {Codec::kNone, Codec::kLz4, Codec::kZstd}) {
    if (name == codec_name(codec)) return codec;
  }
  return std::nullopt;
}

// Digits only: no sign, no space, nothing after them.
std::optional<int> parse_level(std::string_view text) {
  int level = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
  if (error != std::errc{} || end != text.data() + text.size() || text[0] == '-') {
    return std::nullopt;
  }
  return level;
}

Error spec_error(std::string_view text) {
  return make_error(ErrorCode::kInvalid,
                    fmt::format("codec \"{}\": expected none, lz4, lz4:1 to lz4:{}, zstd, or "
                                "zstd:1 to zstd:{}",
                                text, kLz4LevelMax, kZstdLevelMax));
}

}  // namespace

std::string_view codec_name(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kLz4:
      return "lz4";
    case Codec::kZstd:
      return "zstd";
  }
  return "unknown";
}

Result<void> check_spec(const CodecSpec& spec) {
  int level_max = -1;
  switch (spec.codec) {
    case Codec::kNone:
      level_max = 0;
      break;
    case Codec::kLz4:
      level_max = kLz4LevelMax;
      break;
    case Codec::kZstd:
      level_max = kZstdLevelMax;
      break;
  }
  if (spec.level < 0 || spec.level > level_max) {
    return spec_error(fmt::format("{}:{}", codec_name(spec.codec), spec.level));
  }
  return {};
}

Result<CodecSpec> parse_codec(std::string_view text) {
  const size_t colon = text.find(':');
  const std::optional<Codec> codec = codec_named(text.substr(0, colon));
  if (!codec) return spec_error(text);
  CodecSpec spec{.codec = *codec, .level = 0};
  if (colon == std::string_view::npos) return spec;

  const std::optional<int> level = parse_level(text.substr(colon + 1));
  if (!level || spec.codec == Codec::kNone) return spec_error(text);
  spec.level = *level;
  if (!check_spec(spec)) return spec_error(text);
  return spec;
}

}  // namespace penstock::codec
