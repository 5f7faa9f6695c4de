// Blocks of several frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codec/test_data.h"

namespace penstock::codec {
namespace {

constexpr CodecSpec kLz4{Codec::kLz4, 0};

Bytes make_block(std::span<const std::byte> raw, const CodecSpec& spec = kLz4,
                 size_t frame_bytes = kFrameBytesMin) {
  Bytes out(frames_bound(raw.size(), frame_bytes));
  out.resize(encode_frames(raw, out, test_identity(), spec, frame_bytes).value());
  return {out.begin(), out.end()};
}

ErrorCode block_error(std::span<const std::byte> stored, size_t out_bytes) {
  Bytes out(out_bytes);
  const Result<void> result = decode_frames(stored, out, test_identity());
  return result ? ErrorCode::kClosed : result.error().code;
}

// The frames of a block, one by one.
std::vector<Bytes> split(std::span<const std::byte> stored) {
  std::vector<Bytes> frames;
  while (!stored.empty()) {
    const size_t length = read_frame_header(stored).value().frame_bytes();
    frames.emplace_back(stored.begin(), stored.begin() + static_cast<ptrdiff_t>(length));
    stored = stored.subspan(length);
  }
  return frames;
}

Bytes join(const std::vector<Bytes>& frames) {
  Bytes all;
  for (const Bytes& frame : frames) all.insert(all.end(), frame.begin(), frame.end());
  return all;
}

TEST(FrameBlock, RoundTripsAllSizesOfBlockAndFrame) {
  const Bytes data = make_data(Pattern::kMixed, 3 * kFrameBytesMax, 1);
  for (const CodecSpec& spec : {CodecSpec{Codec::kNone, 0}, kLz4, CodecSpec{Codec::kZstd, 1}}) {
    for (size_t frame_bytes : {kFrameBytesMin, kFrameBytesDefault, kFrameBytesMax}) {
      for (size_t size : {size_t{1}, frame_bytes - 1, frame_bytes, frame_bytes + 1, 2 * frame_bytes,
                          2 * frame_bytes + 12345}) {
        const auto raw = std::span(data).first(size);
        const Bytes stored = make_block(raw, spec, frame_bytes);
        Bytes out(size);
        ASSERT_TRUE(decode_frames(stored, out, test_identity()).ok()) << size;
        ASSERT_TRUE(std::ranges::equal(out, raw)) << size;
      }
    }
  }
}

TEST(FrameBlock, EachFrameCanBeReadAlone) {
  const Bytes raw = make_data(Pattern::kText, 3 * kFrameBytesMin + 100, 1);
  const std::vector<Bytes> frames = split(make_block(raw));
  ASSERT_EQ(frames.size(), 4u);
  for (size_t i = 0; i < frames.size(); ++i) {
    FrameIdentity identity = test_identity();
    identity.offset += i * kFrameBytesMin;
    Bytes out(kFrameBytesMin);
    const Result<FrameHeader> header = decode_frame(frames[i], out, identity);
    ASSERT_TRUE(header.ok()) << i;
    EXPECT_EQ(header->raw_bytes, i < 3 ? kFrameBytesMin : 100u);
    EXPECT_EQ(std::memcmp(out.data(), raw.data() + i * kFrameBytesMin, header->raw_bytes), 0);
  }
}

TEST(FrameBlock, BoundIsEnoughAndNotExceeded) {
  for (size_t size : {size_t{1}, kFrameBytesMin, 3 * kFrameBytesMin + 1}) {
    const Bytes stored = make_block(make_data(Pattern::kRandom, size, 1));
    EXPECT_EQ(stored.size(), frames_bound(size, kFrameBytesMin));
  }
  EXPECT_EQ(frame_bound(10), 50u);
  EXPECT_EQ(frames_bound(0, kFrameBytesMin), 0u);
}

TEST(FrameBlock, EncodeRefusesWhatTheContractForbids) {
  const Bytes raw(kFrameBytesMin + 1);
  Bytes out(frames_bound(raw.size(), kFrameBytesMin));
  const auto code = [&](std::span<const std::byte> from, size_t room, size_t frame_bytes,
                        CodecSpec spec = kLz4) {
    const auto result =
        encode_frames(from, std::span(out).first(room), test_identity(), spec, frame_bytes);
    return result ? ErrorCode::kClosed : result.error().code;
  };
  EXPECT_EQ(code(raw, out.size(), kFrameBytesMin), ErrorCode::kClosed);
  EXPECT_EQ(code(raw, out.size() - 1, kFrameBytesMin), ErrorCode::kInvalid);
  EXPECT_EQ(code({}, out.size(), kFrameBytesMin), ErrorCode::kInvalid);
  EXPECT_EQ(code(raw, out.size(), kFrameBytesMin, {Codec::kLz4, 13}), ErrorCode::kInvalid);
  for (size_t frame_bytes : {size_t{0}, size_t{1}, kFrameBytesMin / 2, kFrameBytesMin + 1,
                             3 * kFrameBytesMin, 2 * kFrameBytesMax}) {
    EXPECT_EQ(code(raw, out.size(), frame_bytes), ErrorCode::kInvalid) << frame_bytes;
  }
}

TEST(FrameBlock, WrongRawSizeIsCorrupt) {
  const size_t size = 2 * kFrameBytesMin;
  const Bytes stored = make_block(make_data(Pattern::kText, size, 1));
  EXPECT_EQ(block_error(stored, size), ErrorCode::kClosed);
  for (size_t wrong :
       {size_t{0}, size_t{1}, kFrameBytesMin, size - 1, size + 1, size + kFrameBytesMin}) {
    EXPECT_EQ(block_error(stored, wrong), ErrorCode::kCorrupt) << wrong;
  }
  EXPECT_EQ(block_error({}, 0), ErrorCode::kCorrupt);
  EXPECT_EQ(block_error({}, 1), ErrorCode::kCorrupt);
}

TEST(FrameBlock, TrailingBytesAreCorrupt) {
  const size_t size = 2 * kFrameBytesMin;
  const Bytes stored = make_block(make_data(Pattern::kText, size, 1));
  Bytes longer = stored;
  longer.push_back(std::byte{0});
  EXPECT_EQ(block_error(longer, size), ErrorCode::kCorrupt);
  Bytes twice = stored;
  twice.insert(twice.end(), stored.begin(), stored.end());
  EXPECT_EQ(block_error(twice, size), ErrorCode::kCorrupt);
  EXPECT_EQ(block_error(twice, 2 * size), ErrorCode::kCorrupt);
}

TEST(FrameBlock, MissingSwappedAndRepeatedFramesAreCorrupt) {
  const size_t size = 3 * kFrameBytesMin;
  const std::vector<Bytes> f = split(make_block(make_data(Pattern::kText, size, 1)));
  ASSERT_EQ(f.size(), 3u);
  EXPECT_EQ(block_error(join({f[0], f[1], f[2]}), size), ErrorCode::kClosed);
  EXPECT_EQ(block_error(join({f[0], f[1]}), size), ErrorCode::kCorrupt);
  EXPECT_EQ(block_error(join({f[1], f[2]}), 2 * kFrameBytesMin), ErrorCode::kCorrupt);
  EXPECT_EQ(block_error(join({f[1], f[0], f[2]}), size), ErrorCode::kCorrupt);
  EXPECT_EQ(block_error(join({f[0], f[0], f[2]}), size), ErrorCode::kCorrupt);
}

TEST(FrameBlock, IdenticalFramesAreStillTakenOnlyInTheirPlace) {
  // All frames hold the same zeros; only the checksum, seeded with the offset, tells them apart.
  const size_t size = 2 * kFrameBytesMin;
  const std::vector<Bytes> f = split(make_block(Bytes(size)));
  EXPECT_EQ(block_error(join({f[0], f[1]}), size), ErrorCode::kClosed);
  EXPECT_EQ(block_error(join({f[1], f[0]}), size), ErrorCode::kCorrupt);
}

TEST(FrameBlock, EveryTruncationIsCorrupt) {
  const Bytes stored = make_block(Bytes(kFrameBytesMin + 10), {Codec::kZstd, 0});
  Bytes out(kFrameBytesMin + 10);
  for (size_t length = 0; length < stored.size(); ++length) {
    const Result<void> result =
        decode_frames(std::span(stored).first(length), out, test_identity());
    ASSERT_FALSE(result.ok()) << length;
    ASSERT_EQ(result.error().code, ErrorCode::kCorrupt) << length;
  }
}

}  // namespace
}  // namespace penstock::codec
