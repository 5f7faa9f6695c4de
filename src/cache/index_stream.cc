#include "cache/index_stream.h"

#include <algorithm>
#include <array>

#include "penstock/frame.h"

namespace penstock::cache {

void IndexWriter::write_piece(size_t bytes) {
  const std::span<const std::byte> piece = std::span(piece_).first(bytes);
  sum_ = codec::hash_bytes(piece, sum_);
  if (result_.ok()) result_ = sink_(piece);
  std::copy(piece_.begin() + static_cast<ptrdiff_t>(bytes),
            piece_.begin() + static_cast<ptrdiff_t>(filled_), piece_.begin());
  filled_ -= bytes;
}

Result<void> IndexWriter::finish() {
  if (filled_ > 0) write_piece(filled_);
  std::array<std::byte, sizeof(uint64_t)> sum{};
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<std::byte>((sum_ >> (8 * i)) & 0xff);
  if (result_.ok()) result_ = sink_(sum);
  return result_;
}

bool IndexReader::read_exactly(std::span<std::byte> into) {
  if (!result_.ok()) return false;
  const Result<size_t> got = source_(into);
  if (!got.ok()) {
    result_ = got.error();
  } else if (*got != into.size()) {
    result_ = make_error(ErrorCode::kCorrupt, "index of the cache: cut short");
  }
  return result_.ok();
}

bool IndexReader::read_piece() {
  if (left_ == 0 && result_.ok())
    result_ = make_error(ErrorCode::kCorrupt, "index of the cache: of the wrong length");
  if (!result_.ok()) return false;
  piece_.resize(std::min<uint64_t>(left_, IndexWriter::kPieceBytes));
  at_ = 0;
  if (!read_exactly(piece_)) {
    piece_.clear();
    return false;
  }
  left_ -= piece_.size();
  sum_ = codec::hash_bytes(piece_, sum_);
  return true;
}

Result<void> IndexReader::finish() {
  std::array<std::byte, sizeof(uint64_t)> bytes{};
  if (result_.ok() && (left_ > 0 || at_ < piece_.size()))
    result_ = make_error(ErrorCode::kCorrupt, "index of the cache: of the wrong length");
  if (!read_exactly(bytes)) return result_;
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    sum |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (sum != sum_) result_ = make_error(ErrorCode::kCorrupt, "index of the cache: wrong checksum");
  return result_;
}

}  // namespace penstock::cache
