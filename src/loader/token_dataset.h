// Tokens as samples: every `seq_length` of them begin one, which has one more for the label of the last.
#pragma once

#include <memory>
#include <string>

#include "penstock/data.h"

namespace penstock::loader {

class TokenDataset : public data::Dataset {
 public:
  // kUnsupported when the sequences do not lie back to back, kInvalid when there is not one sample.
  static Result<std::unique_ptr<TokenDataset>> open(const std::string& address, uint32_t seq_length,
                                                    const data::OpenOptions& options);
  virtual data::TokenType type() const = 0;
  virtual uint64_t sample_bytes() const = 0;
  // All of a sample, on this thread. Requires into.size() == sample_bytes().
  virtual Result<void> read_sample(uint64_t sample, std::span<std::byte> into) = 0;
  // As TokenFile::check_size(): what was read counts only when it says so.
  virtual Result<void> check_size() = 0;
};

// Tokens of one type as int64 or int32. Requires out.size() / its size == in.size() / token_bytes(type).
// kInvalid for floats.
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int64_t> out);
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int32_t> out);

}  // namespace penstock::loader
