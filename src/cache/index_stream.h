// The bytes of an index, piece by piece, so that a large one is never in memory as a whole:
// docs/formats/cache-index.md. Its last 8 bytes are a checksum: of the last piece, seeded with that
// of the piece before.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "penstock/result.h"

namespace penstock::cache {

// Takes the next bytes.
using IndexSink = std::function<Result<void>(std::span<const std::byte>)>;
// Gives the next bytes; fewer than asked for only at the end.
using IndexSource = std::function<Result<size_t>(std::span<std::byte>)>;

class IndexWriter {
 public:
  static constexpr size_t kPieceBytes = 64 * 1024;

  explicit IndexWriter(IndexSink sink)
      : sink_(std::move(sink)), piece_(kPieceBytes + sizeof(uint64_t)) {}

  template <std::unsigned_integral T>
  void put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      piece_[filled_ + i] = static_cast<std::byte>((uint64_t{value} >> (8 * i)) & 0xff);
    }
    filled_ += sizeof(T);
    if (filled_ >= kPieceBytes) write_piece(kPieceBytes);
  }
  void put(float value) { put(std::bit_cast<uint32_t>(value)); }

  // Writes the rest and the checksum. The first failure of the sink, if there was any.
  Result<void> finish();

 private:
  void write_piece(size_t bytes);

  const IndexSink sink_;
  std::vector<std::byte> piece_;
  size_t filled_ = 0;
  uint64_t sum_ = 0;
  Result<void> result_;
};

// What was got may be trusted once finish() says so. After a failure of the source everything is 0.
class IndexReader {
 public:
  // `bytes`: of the whole, at least the checksum.
  IndexReader(uint64_t bytes, IndexSource source)
      : source_(std::move(source)), left_(bytes - sizeof(uint64_t)) {}

  template <std::unsigned_integral T>
  T get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      if (at_ == piece_.size() && !read_piece()) return 0;
      value |= uint64_t{static_cast<uint8_t>(piece_[at_++])} << (8 * i);
    }
    return static_cast<T>(value);
  }
  float get_float() { return std::bit_cast<float>(get<uint32_t>()); }

  const Result<void>& result() const { return result_; }
  // Everything was got, and is what was written.
  Result<void> finish();

 private:
  bool read_piece();
  bool read_exactly(std::span<std::byte> into);

  const IndexSource source_;
  uint64_t left_;
  std::vector<std::byte> piece_;
  size_t at_ = 0;
  uint64_t sum_ = 0;
  Result<void> result_;
};

}  // namespace penstock::cache
