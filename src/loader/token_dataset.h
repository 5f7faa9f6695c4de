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
  // The same without a copy, where the file is mapped; or empty. Use it, then ask check_map().
  virtual std::span<const std::byte> mapped_sample(uint64_t sample) const = 0;
  // kChanged when what was mapped is no longer there, and zeros were seen instead.
  virtual Result<void> check_map() const = 0;
};

// Tokens of one type as int64 or int32. Requires out.size() / its size == in.size() / token_bytes(type).
// kInvalid for floats.
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int64_t> out);
Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int32_t> out);

}  // namespace penstock::loader
