// Frames from arbitrary bytes. The checksum keeps almost all of them from the decompressors, so the
// same bytes are also given a right one; and they serve as data for a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "codec/guarded_memory.h"
#include "codec/header.h"
#include "penstock/frame.h"

namespace {

using namespace penstock;
using namespace penstock::codec;
using Bytes = std::vector<std::byte>;

constexpr size_t kForgedBytes = 4;  // What decode_forged reads in front of a payload.

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

void decode_as_is(std::span<const std::byte> data) {
  (void)read_frame_header(data);
  Bytes out(4096);
  (void)decode_frame(data, out, FrameIdentity{});
  (void)decode_frames(data, out, FrameIdentity{});
}

void seal(Bytes& frame) {
  const std::span<std::byte> all = frame;
  const auto header = all.first<kFrameHeaderBytes>();
  write_checksum(header, frame_checksum(header, all.subspan(kFrameHeaderBytes), FrameIdentity{}));
}

// Decodes a frame whose checksum is right. Neither a byte behind the frame can be read nor one
// behind raw_bytes be written.
void decode_sealed(const Bytes& frame) {
  static GuardedMemory stored_memory(kFrameHeaderBytes + kFrameBytesMax);
  static GuardedMemory out_memory(kFrameBytesMax);
  const auto stored = stored_memory.hold(frame);
  const Result<FrameHeader> claimed = read_frame_header(stored);
  const auto out = out_memory.tail(claimed ? claimed->raw_bytes : 1000);
  const Result<FrameHeader> header = decode_frame(stored, out, FrameIdentity{});
  require(claimed.ok() || !header.ok());
  require(decode_frames(stored, out, FrameIdentity{}).ok() == header.ok());
}

// The input is a frame, header and all, but for the magic, the payload's length and the checksum.
void decode_repaired(std::span<const std::byte> data) {
  if (data.size() < kFrameHeaderBytes || data.size() - kFrameHeaderBytes > kFrameBytesMax) return;
  Bytes frame(data.begin(), data.end());
  Bytes sound(kFrameHeaderBytes);
  write_header(std::span(sound).first<kFrameHeaderBytes>(),
               FrameHeader{.stored_bytes = static_cast<uint32_t>(data.size() - kFrameHeaderBytes)});
  std::copy_n(sound.begin(), 4, frame.begin());            // Magic.
  std::copy_n(sound.begin() + 16, 4, frame.begin() + 16);  // Stored bytes.
  seal(frame);
  decode_sealed(frame);
}

// The input is a codec, a raw size in three bytes, and a payload.
void decode_forged(std::span<const std::byte> data) {
  if (data.size() <= kForgedBytes || data.size() > kFrameBytesMax) return;
  const auto payload = data.subspan(kForgedBytes);
  const uint32_t raw_bytes = std::to_integer<uint32_t>(data[1]) |
                             std::to_integer<uint32_t>(data[2]) << 8 |
                             std::to_integer<uint32_t>(data[3]) << 16;
  Bytes frame(kFrameHeaderBytes + payload.size());
  write_header(
      std::span(frame).first<kFrameHeaderBytes>(),
      FrameHeader{.codec = std::to_integer<int>(data[0]) % 2 == 0 ? Codec::kLz4 : Codec::kZstd,
                  .raw_bytes = raw_bytes,
                  .stored_bytes = static_cast<uint32_t>(payload.size())});
  std::memcpy(frame.data() + kFrameHeaderBytes, payload.data(), payload.size());
  seal(frame);
  decode_sealed(frame);
}

CodecSpec spec_from(std::byte choice) {
  const auto value = std::to_integer<int>(choice);
  switch (value % 3) {
    case 0:
      return {Codec::kNone, 0};
    case 1:
      return {Codec::kLz4, value / 3 % 13};
    default:
      return {Codec::kZstd, value / 3 % 10};  // Higher levels are too slow to fuzz.
  }
}

// The input is a codec, a bit to flip, and data.
void round_trip(std::span<const std::byte> data) {
  if (data.size() < 4 || data.size() > kFrameBytesMax) return;
  const auto raw = data.subspan(3);
  Bytes frame(frame_bound(raw.size()));
  frame.resize(encode_frame(raw, frame, FrameIdentity{}, spec_from(data[0])).value());
  Bytes out(raw.size());
  require(decode_frame(frame, out, FrameIdentity{}).ok());
  require(std::ranges::equal(out, raw));

  const size_t bit = (std::to_integer<size_t>(data[1]) << 8 | std::to_integer<size_t>(data[2])) %
                     (frame.size() * 8);
  frame[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  const Result<FrameHeader> damaged = decode_frame(frame, out, FrameIdentity{});
  require(!damaged.ok() && damaged.error().code == ErrorCode::kCorrupt);
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  decode_as_is(bytes);
  decode_repaired(bytes);
  decode_forged(bytes);
  round_trip(bytes);
  return 0;
}

// Every eighth mutation turns the input into what decode_forged takes with a valid payload, so that
// the others have something to damage: guessing compressed data would take for ever.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  if (size == 0 || size > 64 * kKiB || random() % 8 != 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  Bytes raw;  // Repeated, so that it shrinks.
  for (auto times = 1 + random() % 8; times > 0; --times)
    raw.insert(raw.end(), bytes, bytes + size);
  const bool zstd = random() % 2 == 0;
  Bytes frame(frame_bound(raw.size()));
  const CodecSpec spec{zstd ? Codec::kZstd : Codec::kLz4, static_cast<int>(random() % 10)};
  frame.resize(encode_frame(raw, frame, FrameIdentity{}, spec).value());
  const size_t length = kForgedBytes + frame.size() - kFrameHeaderBytes;
  if (read_frame_header(frame)->codec == Codec::kNone || length > max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  data[0] = zstd ? 1 : 0;
  for (size_t i = 0; i < 3; ++i) data[1 + i] = static_cast<uint8_t>(raw.size() >> (8 * i) & 0xff);
  std::memcpy(data + kForgedBytes, frame.data() + kFrameHeaderBytes, length - kForgedBytes);
  return length;
}
