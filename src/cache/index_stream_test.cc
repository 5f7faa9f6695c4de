#include "cache/index_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cache/testing.h"

namespace penstock::cache {
namespace {

constexpr size_t kPiece = IndexWriter::kPieceBytes;

uint8_t content(size_t at) {
  return static_cast<uint8_t>(at * 7 + at / kPiece);  // No two pieces are alike.
}

std::vector<std::byte> written(size_t bytes) {
  std::vector<std::byte> all;
  IndexWriter writer([&](std::span<const std::byte> piece) -> Result<void> {
    all.insert(all.end(), piece.begin(), piece.end());
    return {};
  });
  for (size_t i = 0; i < bytes; ++i) writer.put(content(i));
  EXPECT_THAT(writer.finish(), IsOk());
  return all;
}

Result<void> read_back(std::span<const std::byte> from, size_t bytes) {
  const IndexSource source = [&](std::span<std::byte> into) -> Result<size_t> {
    const auto next = from.first(std::min(from.size(), into.size()));
    std::copy(next.begin(), next.end(), into.begin());
    from = from.subspan(next.size());
    return next.size();
  };
  IndexReader reader(bytes + 8, source);
  bool same = true;
  for (size_t i = 0; i < bytes; ++i) same &= reader.get<uint8_t>() == content(i);
  const Result<void> result = reader.finish();
  EXPECT_TRUE(same || !result.ok()) << "wrong bytes were called right";
  return result;
}

TEST(IndexStream, AnyLengthComesBack) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kPiece - 1, kPiece, kPiece + 1, 3 * kPiece + 5}) {
    const std::vector<std::byte> all = written(bytes);
    EXPECT_EQ(all.size(), bytes + 8);
    EXPECT_THAT(read_back(all, bytes), IsOk()) << bytes;
  }
}

TEST(IndexStream, ValuesMayLieAcrossPieces) {
  std::vector<std::byte> all;
  const IndexSink sink = [&](std::span<const std::byte> piece) -> Result<void> {
    all.insert(all.end(), piece.begin(), piece.end());
    return {};
  };
  IndexWriter writer(sink);
  writer.put(uint8_t{1});
  for (uint64_t i = 0; i < kPiece; ++i) writer.put(i * 0x0123456789abcdefU);
  ASSERT_THAT(writer.finish(), IsOk());
  size_t at = 0;
  const IndexSource source = [&](std::span<std::byte> into) -> Result<size_t> {
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(at), into.size(), into.begin());
    at += into.size();
    return into.size();
  };
  IndexReader reader(all.size(), source);
  EXPECT_EQ(reader.get<uint8_t>(), 1);
  for (uint64_t i = 0; i < kPiece; ++i) ASSERT_EQ(reader.get<uint64_t>(), i * 0x0123456789abcdefU);
  EXPECT_THAT(reader.finish(), IsOk());
}

TEST(IndexStream, DamageInAnyPieceIsFound) {
  constexpr size_t kBytes = 3 * kPiece + 100;
  const std::vector<std::byte> all = written(kBytes);
  for (size_t at = 0; at < all.size(); at += 4999) {
    std::vector<std::byte> bad = all;
    bad[at] ^= std::byte{16};
    EXPECT_THAT(read_back(bad, kBytes), FailsWith(ErrorCode::kCorrupt)) << at;
    EXPECT_THAT(read_back(std::span(all).first(at), kBytes), FailsWith(ErrorCode::kCorrupt)) << at;
  }
  std::vector<std::byte> swapped = all;  // Each piece is right, but in another's place.
  std::swap_ranges(swapped.begin(), swapped.begin() + kPiece, swapped.begin() + kPiece);
  EXPECT_THAT(read_back(swapped, kBytes), FailsWith(ErrorCode::kCorrupt));
}

TEST(IndexStream, WhatIsLeftOverIsNotRight) {
  EXPECT_THAT(read_back(written(kPiece + 8), kPiece), FailsWith(ErrorCode::kCorrupt));
}

TEST(IndexStream, FailuresArePassedOn) {
  const Error full = make_error(ErrorCode::kNoSpace, "full");
  int calls = 0;
  const IndexSink sink = [&](std::span<const std::byte>) -> Result<void> {
    if (++calls == 2) return full;
    return {};
  };
  IndexWriter writer(sink);
  for (size_t i = 0; i < 3 * kPiece; ++i) writer.put(uint8_t{0});
  EXPECT_THAT(writer.finish(), FailsWith(ErrorCode::kNoSpace));
  EXPECT_EQ(calls, 2) << "went on writing";

  const IndexSource source = [](std::span<std::byte>) -> Result<size_t> {
    return make_error(ErrorCode::kIo, "gone");
  };
  IndexReader reader(1000, source);
  EXPECT_EQ(reader.get<uint64_t>(), 0U);
  EXPECT_THAT(reader.result(), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(reader.finish(), FailsWith(ErrorCode::kIo));
}

}  // namespace
}  // namespace penstock::cache
