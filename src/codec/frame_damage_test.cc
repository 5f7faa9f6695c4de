// What a decoder must refuse: damage, frames in the wrong place, and frames that are hostile but
// rightly checksummed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include "codec/guarded_memory.h"
#include "codec/test_data.h"

namespace penstock::codec {
namespace {

using ::testing::HasSubstr;

constexpr std::array kSpecs = {CodecSpec{Codec::kNone, 0}, CodecSpec{Codec::kLz4, 0},
                               CodecSpec{Codec::kZstd, 0}};

// Where the fields are, said again: the format document is the source for both.
constexpr size_t kVersionAt = 4, kCodecAt = 5, kFlagsAt = 6, kKeyIdAt = 8, kRawBytesAt = 12,
                 kStoredBytesAt = 16, kReservedAt = 20;

void put_u32(Bytes& frame, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) frame[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

Bytes changed(Bytes frame, size_t at, unsigned value) {
  frame[at] = static_cast<std::byte>(value);
  seal(frame);
  return frame;
}

Bytes from_numbers(std::initializer_list<int> numbers) {
  Bytes bytes;
  for (int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

Bytes compress_lz4(std::span<const std::byte> raw) {
  Bytes out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw.size()))));
  const int length = LZ4_compress_default(
      reinterpret_cast<const char*>(raw.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(raw.size()), static_cast<int>(out.size()));
  out.resize(static_cast<size_t>(length));
  return out;
}

Bytes compress_zstd(std::span<const std::byte> raw, bool content_size = true) {
  Bytes out(ZSTD_compressBound(raw.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, content_size ? 1 : 0);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  return out;
}

TEST(FrameDamage, EveryFlippedBitIsCorrupt) {
  for (const CodecSpec& spec : kSpecs) {
    for (size_t size : {1u, 3u, 8u, 16u, 100u, 128u, 240u, 700u}) {
      Bytes frame = make_frame(make_data(Pattern::kText, size, size), spec);
      for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
        const auto mask = static_cast<std::byte>(1u << (bit % 8));
        frame[bit / 8] ^= mask;
        ASSERT_EQ(decode_error(frame, 1000), ErrorCode::kCorrupt)
            << codec_name(spec.codec) << " size " << size << " bit " << bit;
        frame[bit / 8] ^= mask;
      }
      ASSERT_EQ(decode_error(frame, 1000), ErrorCode::kClosed);
    }
  }
}

TEST(FrameDamage, RandomDamageIsCorrupt) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Bytes raw = make_data(Pattern::kText, 1 + random() % 2000, seed);
    const Bytes good = make_frame(raw, kSpecs[random() % kSpecs.size()]);
    Bytes bad = good;
    const size_t from = random() % bad.size();
    const size_t length = 1 + random() % (bad.size() - from);
    for (size_t i = from; i < from + length; ++i) bad[i] = static_cast<std::byte>(random() & 0xff);
    if (bad == good) continue;
    ASSERT_EQ(decode_error(bad, 2000), ErrorCode::kCorrupt) << "seed " << seed;
  }
}

TEST(FrameDamage, EveryTruncationIsCorrupt) {
  for (const CodecSpec& spec : kSpecs) {
    const Bytes frame = make_frame(make_data(Pattern::kText, 500, 1), spec);
    GuardedMemory memory(frame.size());
    for (size_t length = 0; length < frame.size(); ++length) {
      const auto cut = memory.hold(std::span(frame).first(length));
      ASSERT_EQ(decode_error(cut, 500), ErrorCode::kCorrupt) << length;
      const Result<FrameHeader> header = read_frame_header(cut);
      ASSERT_EQ(header.ok(), length >= kFrameHeaderBytes);
      ASSERT_TRUE(header.ok() || header.error().code == ErrorCode::kCorrupt);
    }
  }
}

TEST(FrameDamage, AnotherIdentityIsCorrupt) {
  const Bytes frame = make_frame(bytes_of("right frame, wrong place"), {Codec::kNone, 0});
  const auto expect_refused = [&](const FrameIdentity& identity) {
    EXPECT_EQ(decode_error(frame, 100, identity), ErrorCode::kCorrupt);
  };
  for (size_t bit = 0; bit < 128; ++bit) {
    FrameIdentity identity = test_identity();
    identity.space[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    expect_refused(identity);
  }
  for (auto field :
       {&FrameIdentity::object_high, &FrameIdentity::object_low, &FrameIdentity::offset}) {
    for (size_t bit = 0; bit < 64; ++bit) {
      FrameIdentity identity = test_identity();
      identity.*field ^= uint64_t{1} << bit;
      expect_refused(identity);
    }
  }
  FrameIdentity exchanged = test_identity();
  std::swap(exchanged.object_high, exchanged.object_low);
  expect_refused(exchanged);
}

TEST(FrameDamage, NewerFramesAreRefusedAsSuch) {
  const Bytes frame = make_frame(make_data(Pattern::kText, 500, 1), {Codec::kLz4, 0});
  struct Case {
    size_t at;
    unsigned value;
    const char* named;
  };
  std::vector<Case> cases = {{kVersionAt, 2, "format 2"},
                             {kVersionAt, 255, "format 255"},
                             {kCodecAt, 3, "codec 3"},
                             {kCodecAt, 255, "codec 255"},
                             {kKeyIdAt, 1, "encryption key 1"}};
  for (unsigned bit = 0; bit < 8; ++bit) cases.push_back({kFlagsAt, 1u << bit, "flags"});
  for (const Case& c : cases) {
    const Bytes newer = changed(frame, c.at, c.value);
    Bytes out(500);
    for (const auto& result :
         {decode_frame(newer, out, test_identity()), read_frame_header(newer)}) {
      ASSERT_FALSE(result.ok()) << c.named;
      EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
      EXPECT_THAT(result.error().detail, HasSubstr("newer"));
      EXPECT_THAT(result.error().detail, HasSubstr(c.named));
    }
    EXPECT_EQ(decode_frames(newer, out, test_identity()).error().code, ErrorCode::kUnsupported);
  }
  EXPECT_EQ(decode_error(changed(frame, kVersionAt, 0)), ErrorCode::kCorrupt);
}

TEST(FrameDamage, FlagsThatMayBeIgnoredAre) {
  const Bytes raw = make_data(Pattern::kText, 500, 1);
  const Bytes frame = make_frame(raw, {Codec::kLz4, 0});
  for (unsigned bit = 0; bit < 8; ++bit) {
    Bytes flagged = changed(frame, kFlagsAt + 1, 1u << bit);
    flagged = changed(flagged, kReservedAt, 7);  // The flag may have given these a meaning.
    Bytes out(500);
    const Result<FrameHeader> header = decode_frame(flagged, out, test_identity());
    ASSERT_TRUE(header.ok()) << bit;
    EXPECT_EQ(out, raw);
    EXPECT_EQ(header->rewritable(), bit >= 4) << bit;
  }
  EXPECT_EQ((kFlagsIncompatible | kFlagsReadOnly | kFlagsCompatible), 0xffff);
}

TEST(FrameDamage, ReservedBytesMustBeZero) {
  const Bytes frame = make_frame(make_data(Pattern::kText, 500, 1), {Codec::kLz4, 0});
  for (size_t at = kReservedAt; at < kReservedAt + 12; ++at) {
    const Bytes used = changed(frame, at, 1);
    EXPECT_EQ(decode_error(used), ErrorCode::kCorrupt) << at;
    EXPECT_FALSE(read_frame_header(used).ok()) << at;
  }
}

TEST(FrameDamage, ImpossibleSizesAreCorrupt) {
  const Bytes frame = make_frame(make_data(Pattern::kText, 500, 1), {Codec::kLz4, 0});
  const auto stored = static_cast<uint32_t>(frame.size() - kFrameHeaderBytes);
  for (uint32_t raw : {uint32_t{0}, uint32_t{1}, stored - 1, stored,
                       static_cast<uint32_t>(kFrameBytesMax + 1), 0x7fffffffu, 0xffffffffu}) {
    Bytes claims = frame;
    put_u32(claims, kRawBytesAt, raw);
    seal(claims);
    EXPECT_EQ(decode_error(claims), ErrorCode::kCorrupt) << raw;
    EXPECT_EQ(read_frame_header(claims).error().code, ErrorCode::kCorrupt) << raw;
  }
  for (uint32_t claim : {stored + 1, 500u, 501u, static_cast<uint32_t>(kFrameBytesMax),
                         static_cast<uint32_t>(kFrameBytesMax + 1), 0x7fffffffu, 0xffffffffu}) {
    Bytes claims = frame;
    put_u32(claims, kStoredBytesAt, claim);
    seal(claims);
    EXPECT_EQ(decode_error(claims), ErrorCode::kCorrupt) << claim;
  }
  EXPECT_EQ(decode_error(forge_frame(Codec::kLz4, 1, {})), ErrorCode::kCorrupt);
  EXPECT_EQ(decode_error(forge_frame(Codec::kNone, 6, bytes_of("12345"))), ErrorCode::kCorrupt);
  EXPECT_EQ(decode_error(forge_frame(Codec::kNone, 4, bytes_of("12345"))), ErrorCode::kCorrupt);
}

// No version may have larger payloads, so that damage cannot make a reader hash gigabytes. A newer
// version shows the limit: below it the frame is verified and found to be newer.
TEST(FrameDamage, PayloadsBeyondTheLimitOfAllVersionsAreCorrupt) {
  const Bytes payload(kStoredBytesMax + 1);
  for (size_t excess : {0u, 1u}) {
    const auto part = std::span(payload).first(kStoredBytesMax + excess);
    const Bytes newer = changed(forge_frame(Codec::kNone, 1000, part), kVersionAt, 2);
    const ErrorCode expected = excess == 0 ? ErrorCode::kUnsupported : ErrorCode::kCorrupt;
    EXPECT_EQ(decode_error(newer), expected);
    EXPECT_EQ(read_frame_header(newer).error().code, expected);
  }
}

// A hostile payload in a frame whose checksum is right: refused, and nothing written past what the
// header claims.
void expect_refused(Codec codec, uint32_t raw_bytes, std::span<const std::byte> payload,
                    const char* why = "") {
  ASSERT_LT(payload.size(), raw_bytes) << "would be refused for its header alone";
  const Bytes frame = forge_frame(codec, raw_bytes, payload);
  ASSERT_TRUE(read_frame_header(frame).ok());
  Bytes out(raw_bytes + 4096, kCanary);
  const Result<FrameHeader> result = decode_frame(frame, out, test_identity());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(result.error().detail, HasSubstr("payload is not valid"));
  EXPECT_THAT(result.error().detail, HasSubstr(why));
  EXPECT_TRUE(untouched(std::span(out).subspan(raw_bytes)));
}

TEST(FrameDamage, Lz4PayloadsThatWouldOverrunAreCorrupt) {
  const Bytes zeros = compress_lz4(Bytes(100000));
  for (uint32_t raw : {2000u, 50000u, 99999u}) expect_refused(Codec::kLz4, raw, zeros);
  const Bytes text = compress_lz4(make_data(Pattern::kText, 5000, 1));
  expect_refused(Codec::kLz4, 4999, text);
  expect_refused(Codec::kLz4, 5001, text);  // Shorter than declared.
  const Bytes cut(text.begin(), text.end() - 1);
  expect_refused(Codec::kLz4, 5000, cut);
  // A match that begins before the output, in a payload that is right otherwise.
  const Bytes before = from_numbers({0x1f, 'a', 2, 0, 0x20, 0x50, 'a', 'a', 'a', 'a', 'a'});
  Bytes within = before;
  within[2] = std::byte{1};
  EXPECT_EQ(decode_error(forge_frame(Codec::kLz4, 57, within)), ErrorCode::kClosed);
  expect_refused(Codec::kLz4, 57, before);
  // A length that never ends.
  expect_refused(Codec::kLz4, 1000, Bytes(300, std::byte{0xff}));
}

TEST(FrameDamage, ZstdPayloadsThatLieAreCorrupt) {
  const Bytes raw = make_data(Pattern::kText, 5000, 1);
  const Bytes good = compress_zstd(raw);
  EXPECT_EQ(decode_error(forge_frame(Codec::kZstd, 5000, good)), ErrorCode::kClosed);
  expect_refused(Codec::kZstd, 4999, good);
  expect_refused(Codec::kZstd, 5001, good);
  expect_refused(Codec::kZstd, 5000, Bytes(good.begin(), good.end() - 1));
  expect_refused(Codec::kZstd, 5000, compress_zstd(raw, false));

  // A single-segment frame that declares 2^60 bytes.
  Bytes huge = from_numbers({0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10});
  huge.insert(huge.end(), good.begin() + 6, good.end());
  expect_refused(Codec::kZstd, 5000, huge);

  // The right size declared, but blocks that hold more.
  Bytes more = compress_zstd(Bytes(9000));
  const Bytes less = compress_zstd(Bytes(5000));
  ASSERT_EQ(more.size(), less.size());
  std::copy_n(less.begin(), 7, more.begin());  // The zstd header, up to the first block.
  ASSERT_EQ(ZSTD_getFrameContentSize(more.data(), more.size()), 5000u);
  expect_refused(Codec::kZstd, 5000, more);
}

TEST(FrameDamage, ZstdMustBeOnePlainFrame) {
  const Bytes raw = make_data(Pattern::kText, 5000, 1);
  const Bytes good = compress_zstd(raw);
  Bytes skippable = from_numbers({0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'});
  skippable.insert(skippable.end(), good.begin(), good.end());
  expect_refused(Codec::kZstd, 5000, skippable, "not a zstd frame");

  Bytes two = good;
  const Bytes empty = compress_zstd({});
  two.insert(two.end(), empty.begin(), empty.end());
  expect_refused(Codec::kZstd, 5000, two);

  Bytes legacy = good;
  for (unsigned old : {0x1e, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27}) {
    legacy[0] = static_cast<std::byte>(old);
    expect_refused(Codec::kZstd, 5000, legacy, "not a zstd frame");
  }
}

TEST(FrameDamage, RandomPayloadsNeverOverrun) {
  GuardedMemory stored_memory(kFrameBytesMax);
  GuardedMemory out_memory(kFrameBytesMax);
  size_t refused = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const Codec codec = random() % 2 == 0 ? Codec::kLz4 : Codec::kZstd;
    const Bytes raw = make_data(Pattern::kText, 200 + random() % 3000, seed);
    Bytes payload = codec == Codec::kLz4 ? compress_lz4(raw) : compress_zstd(raw);
    for (size_t i = 0; i < 1 + random() % 4; ++i) {
      payload[random() % payload.size()] = static_cast<std::byte>(random() & 0xff);
    }
    const Bytes frame = forge_frame(codec, static_cast<uint32_t>(raw.size()), payload);
    const Result<FrameHeader> result =
        decode_frame(stored_memory.hold(frame), out_memory.tail(raw.size()), test_identity());
    ASSERT_TRUE(result.ok() || result.error().code == ErrorCode::kCorrupt) << "seed " << seed;
    refused += result.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000u);  // Or the damage was none.
}

}  // namespace
}  // namespace penstock::codec
