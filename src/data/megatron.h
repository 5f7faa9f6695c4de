// The index of a Megatron dataset: PREFIX.idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "penstock/data.h"

namespace penstock::data {

class TokenIndex {
 public:
  // Fills `into` with the bytes of PREFIX.idx at `offset`, which it has.
  using Read = std::function<Result<void>(uint64_t offset, std::span<std::byte> into)>;

  // kCorrupt when it is no such index, or points outside of a PREFIX.bin of `bin_bytes`.
  static Result<TokenIndex> load(uint64_t idx_bytes, uint64_t bin_bytes, const Read& read);

  TokenType type() const { return type_; }
  uint64_t sequences() const { return sequences_; }
  uint64_t documents() const { return entries_ == 0 ? 0 : entries_ - 1; }
  uint32_t length(uint64_t sequence) const;
  uint64_t offset(uint64_t sequence) const;
  uint64_t document_begin(uint64_t document) const;

 private:
  Result<void> settle_type(uint64_t bin_bytes);
  Result<void> check(uint64_t bin_bytes) const;
  template <typename T>
  T value(uint64_t array_at, uint64_t i) const;

  TokenType type_ = TokenType::kUint16;
  uint64_t sequences_ = 0;
  uint64_t entries_ = 0;           // Of the list of documents: one more than there are.
  std::vector<std::byte> arrays_;  // As in the file, from the lengths to the documents.
};

}  // namespace penstock::data
