// Data and frames for the tests of this layer.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <vector>

#include "codec/header.h"
#include "penstock/frame.h"

namespace penstock::codec {

using Bytes = std::vector<std::byte>;

enum class Pattern { kZero, kText, kTokens, kMixed, kRandom };
inline constexpr std::array kPatterns = {Pattern::kZero, Pattern::kText, Pattern::kTokens,
                                         Pattern::kMixed, Pattern::kRandom};

inline Bytes bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline std::byte pattern_byte(Pattern pattern, size_t i, std::mt19937_64& random) {
  switch (pattern) {
    case Pattern::kZero:
      return std::byte{0};
    case Pattern::kText:
      return static_cast<std::byte>("the quick brown fox, "[(i + random() % 8 / 7) % 21]);
    case Pattern::kTokens:  // Small numbers in four bytes each.
      return i % 4 < 2 ? static_cast<std::byte>(random() & 0x3f) : std::byte{0};
    case Pattern::kMixed:  // Runs of noise and of zeros.
      return i / 512 % 2 == 0 ? static_cast<std::byte>(random() & 0xff) : std::byte{0};
    case Pattern::kRandom:
      return static_cast<std::byte>(random() & 0xff);
  }
  return std::byte{0};
}

inline Bytes make_data(Pattern pattern, size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes data(size);
  for (size_t i = 0; i < size; ++i) data[i] = pattern_byte(pattern, i, random);
  return data;
}

inline FrameIdentity test_identity() {
  FrameIdentity identity{
      .object_high = 0x1112131415161718, .object_low = 0x2122232425262728, .offset = 512 * kKiB};
  for (size_t i = 0; i < identity.space.size(); ++i) {
    identity.space[i] = static_cast<std::byte>(i);
  }
  return identity;
}

// Exactly the frame, so that AddressSanitizer sees a read beyond it.
inline Bytes make_frame(std::span<const std::byte> raw, const CodecSpec& spec,
                        const FrameIdentity& identity = test_identity()) {
  Bytes out(frame_bound(raw.size()));
  out.resize(encode_frame(raw, out, identity, spec).value());
  return {out.begin(), out.end()};
}

// Makes the checksum right again after a change, as a hostile writer would.
inline void seal(Bytes& frame, const FrameIdentity& identity = test_identity()) {
  const std::span<std::byte> all = frame;
  const auto header = all.first<kFrameHeaderBytes>();
  write_checksum(header, frame_checksum(header, all.subspan(kFrameHeaderBytes), identity));
}

// A sealed frame with any payload and claims.
inline Bytes forge_frame(Codec codec, uint32_t raw_bytes, std::span<const std::byte> payload) {
  Bytes frame(kFrameHeaderBytes + payload.size());
  write_header(std::span(frame).first<kFrameHeaderBytes>(),
               FrameHeader{.codec = codec,
                           .raw_bytes = raw_bytes,
                           .stored_bytes = static_cast<uint32_t>(payload.size())});
  std::ranges::copy(payload, frame.begin() + kFrameHeaderBytes);
  seal(frame);
  return frame;
}

// What memory that nobody may write to is filled with, and whether it still is.
inline constexpr std::byte kCanary{0xa5};
inline bool untouched(std::span<const std::byte> memory) {
  return std::ranges::all_of(memory, [](std::byte b) { return b == kCanary; });
}

// The code that decoding ends with, or kClosed, which it never gives, when it succeeds.
inline ErrorCode decode_error(std::span<const std::byte> stored, size_t out_bytes = kFrameBytesMax,
                              const FrameIdentity& identity = test_identity()) {
  Bytes out(out_bytes);
  const Result<FrameHeader> header = decode_frame(stored, out, identity);
  return header ? ErrorCode::kClosed : header.error().code;
}

}  // namespace penstock::codec
