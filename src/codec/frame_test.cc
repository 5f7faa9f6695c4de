#include "penstock/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "codec/test_data.h"

namespace penstock::codec {
namespace {

using ::testing::HasSubstr;

std::vector<CodecSpec> all_specs() {
  std::vector<CodecSpec> specs = {{Codec::kNone, 0}};
  for (int level = 0; level <= 12; ++level) specs.push_back({Codec::kLz4, level});
  for (int level = 0; level <= 19; ++level) specs.push_back({Codec::kZstd, level});
  return specs;
}

std::string name_of(const CodecSpec& spec, Pattern pattern, size_t size) {
  return std::string(codec_name(spec.codec)) + ":" + std::to_string(spec.level) + " pattern " +
         std::to_string(static_cast<int>(pattern)) + " size and seed " + std::to_string(size);
}

void expect_round_trip(const CodecSpec& spec, const Bytes& raw) {
  const size_t size = raw.size();
  const Bytes frame = make_frame(raw, spec);
  Bytes out(size);
  const Result<FrameHeader> header = decode_frame(frame, out, test_identity());
  ASSERT_TRUE(header.ok()) << header.error().to_string();
  EXPECT_EQ(out, raw);
  EXPECT_EQ(header->raw_bytes, size);
  EXPECT_EQ(header->frame_bytes(), frame.size());
  EXPECT_TRUE(header->rewritable());
  if (header->codec == Codec::kNone) {
    EXPECT_EQ(header->stored_bytes, size);
  } else {
    EXPECT_EQ(header->codec, spec.codec);
    EXPECT_LT(header->stored_bytes, size);
  }
}

void expect_round_trip(const CodecSpec& spec, Pattern pattern, size_t size) {
  SCOPED_TRACE(name_of(spec, pattern, size));
  expect_round_trip(spec, make_data(pattern, size, size));
}

TEST(Frame, RoundTripsEveryCodecLevelAndPattern) {
  for (const CodecSpec& spec : all_specs()) {
    for (Pattern pattern : kPatterns) {
      for (size_t size : {1u, 2u, 3u, 12u, 13u, 64u, 255u, 1000u, 4099u}) {
        expect_round_trip(spec, pattern, size);
      }
    }
  }
}

TEST(Frame, RoundTripsLargeFrames) {
  for (Pattern pattern : kPatterns) {
    for (size_t size : {kFrameBytesMin, kFrameBytesMax - 1, kFrameBytesMax}) {
      const Bytes raw = make_data(pattern, size, size);
      for (const CodecSpec& spec : {CodecSpec{Codec::kNone, 0}, CodecSpec{Codec::kLz4, 0},
                                    CodecSpec{Codec::kLz4, 4}, CodecSpec{Codec::kZstd, 1}}) {
        SCOPED_TRACE(name_of(spec, pattern, size));
        expect_round_trip(spec, raw);
      }
    }
  }
  expect_round_trip({Codec::kLz4, 12}, Pattern::kText, kFrameBytesMax);
  expect_round_trip({Codec::kZstd, 19}, Pattern::kText, kFrameBytesMax);
}

TEST(Frame, RoundTripsRandomSizes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<CodecSpec> specs = all_specs();
    const CodecSpec spec = specs[random() % 18];  // Up to zstd:3, for speed.
    expect_round_trip(spec, kPatterns[random() % kPatterns.size()], 1 + random() % 50000);
  }
}

TEST(Frame, CompressesWhatShrinksAndStoresTheRestRaw) {
  for (const CodecSpec& spec : {CodecSpec{Codec::kLz4, 0}, CodecSpec{Codec::kLz4, 9},
                                CodecSpec{Codec::kZstd, 0}, CodecSpec{Codec::kZstd, 12}}) {
    SCOPED_TRACE(name_of(spec, Pattern::kRandom, 0));
    const Bytes text = make_frame(make_data(Pattern::kText, 60000, 1), spec);
    EXPECT_EQ(read_frame_header(text)->codec, spec.codec);
    EXPECT_LT(text.size(), 40000u);
    const Bytes noise = make_frame(make_data(Pattern::kRandom, 60000, 1), spec);
    EXPECT_EQ(read_frame_header(noise)->codec, Codec::kNone);
    EXPECT_EQ(noise.size(), frame_bound(60000));
  }
}

TEST(Frame, HigherLevelsCompressMore) {
  const Bytes raw = make_data(Pattern::kText, 300000, 1);
  EXPECT_LT(make_frame(raw, {Codec::kLz4, 9}).size(), make_frame(raw, {Codec::kLz4, 0}).size());
  EXPECT_LT(make_frame(raw, {Codec::kZstd, 15}).size(), make_frame(raw, {Codec::kZstd, 1}).size());
  EXPECT_EQ(make_frame(raw, {Codec::kZstd, 0}), make_frame(raw, {Codec::kZstd, 3}));
}

TEST(Frame, EncodeRefusesWhatTheContractForbids) {
  const Bytes raw = make_data(Pattern::kText, 1000, 1);
  Bytes out(frame_bound(kFrameBytesMax + 1));
  const auto code = [&](std::span<const std::byte> from, size_t room, CodecSpec spec) {
    const auto result = encode_frame(from, std::span(out).first(room), test_identity(), spec);
    return result ? ErrorCode::kClosed : result.error().code;
  };
  EXPECT_EQ(code({}, out.size(), {}), ErrorCode::kInvalid);
  EXPECT_EQ(code(Bytes(kFrameBytesMax + 1), out.size(), {}), ErrorCode::kInvalid);
  EXPECT_EQ(code(raw, frame_bound(1000) - 1, {}), ErrorCode::kInvalid);
  EXPECT_EQ(code(raw, 0, {}), ErrorCode::kInvalid);
  for (const CodecSpec& spec : {CodecSpec{Codec::kNone, 1}, CodecSpec{Codec::kLz4, -1},
                                CodecSpec{Codec::kLz4, 13}, CodecSpec{Codec::kZstd, -1},
                                CodecSpec{Codec::kZstd, 20}, CodecSpec{static_cast<Codec>(3), 0}}) {
    EXPECT_EQ(code(raw, out.size(), spec), ErrorCode::kInvalid) << spec.level;
  }
}

TEST(Frame, EncodeWritesNothingBeyondItsBound) {
  for (const CodecSpec& spec : all_specs()) {
    for (Pattern pattern : {Pattern::kText, Pattern::kRandom}) {
      const Bytes raw = make_data(pattern, 3000, 5);
      Bytes out(frame_bound(raw.size()) + 64, kCanary);
      ASSERT_TRUE(encode_frame(raw, out, test_identity(), spec).ok());
      EXPECT_TRUE(untouched(std::span(out).last(64)));
    }
  }
}

TEST(Frame, DecodeRefusesTooLittleRoom) {
  const Bytes frame = make_frame(make_data(Pattern::kText, 1000, 1), {Codec::kLz4, 0});
  EXPECT_EQ(decode_error(frame, 999), ErrorCode::kInvalid);
  EXPECT_EQ(decode_error(frame, 0), ErrorCode::kInvalid);
  EXPECT_EQ(decode_error(frame, 1000), ErrorCode::kClosed);
}

TEST(Frame, DecodeWritesNothingBeyondRawBytes) {
  for (const CodecSpec& spec :
       {CodecSpec{Codec::kNone, 0}, CodecSpec{Codec::kLz4, 0}, CodecSpec{Codec::kZstd, 0}}) {
    for (size_t size = 1; size < 600; ++size) {
      const Bytes frame = make_frame(make_data(Pattern::kText, size, size), spec);
      Bytes out(size + 64, kCanary);
      ASSERT_TRUE(decode_frame(frame, out, test_identity()).ok());
      ASSERT_TRUE(untouched(std::span(out).last(64))) << size;
    }
  }
}

TEST(Frame, IgnoresWhatFollowsTheFrame) {
  const Bytes raw = make_data(Pattern::kText, 1000, 1);
  Bytes stored = make_frame(raw, {Codec::kZstd, 0});
  const size_t frame_bytes = stored.size();
  stored.resize(stored.size() + 100, std::byte{0xee});
  Bytes out(1000);
  ASSERT_EQ(decode_frame(stored, out, test_identity())->frame_bytes(), frame_bytes);
  EXPECT_EQ(out, raw);
}

TEST(Frame, HeaderCanBeReadWithoutThePayload) {
  const Bytes frame = make_frame(make_data(Pattern::kText, 5000, 1), {Codec::kLz4, 0});
  const auto header = read_frame_header(std::span(frame).first(kFrameHeaderBytes));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->codec, Codec::kLz4);
  EXPECT_EQ(header->flags, 0);
  EXPECT_EQ(header->key_id, 0u);
  EXPECT_EQ(header->raw_bytes, 5000u);
  EXPECT_EQ(header->frame_bytes(), frame.size());
}

TEST(Frame, ErrorsNameTheFrame) {
  Bytes frame = make_frame(bytes_of("hello"), {Codec::kNone, 0});
  frame.back() ^= std::byte{1};
  Bytes out(5);
  const auto result = decode_frame(frame, out, test_identity());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().detail, HasSubstr("524288"));
  EXPECT_THAT(result.error().detail, HasSubstr("11121314151617182122232425262728"));
}

// Each thread has its own compressor state; run under ThreadSanitizer this shows that none is
// shared.
TEST(Frame, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (size_t i = 0; i < 20; ++i) {
        for (const CodecSpec& spec :
             {CodecSpec{Codec::kLz4, 0}, CodecSpec{Codec::kLz4, 3}, CodecSpec{Codec::kZstd, 0}}) {
          expect_round_trip(spec, Pattern::kText, 1000 + 97 * t + i);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::codec
