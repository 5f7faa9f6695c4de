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
  // The bytes of a sample where they lie in the page cache (data::TokenFile::view). Requires
  // can_view().
  virtual bool can_view() const = 0;
  virtual Result<std::span<const std::byte>> view(uint64_t sample) = 0;
  virtual uint64_t sample_bytes() const = 0;
};

// Tokens of one type as int64 or int32. Requires out.size() / its size == in.size() / token_bytes(type).
// kInvalid for floats.
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int64_t> out);
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int32_t> out);

}  // namespace penstock::loader
