// Kept apart, and compiled for several kinds of CPU: this is all that a loader of tokens does.
#include <fmt/core.h>

#include <cstring>

#include "loader/token_dataset.h"

namespace penstock::loader {

namespace {

// Sanitizers are not ready yet when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PENSTOCK_FOR_CPUS __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define PENSTOCK_FOR_CPUS
#endif

template <typename In, typename Out>
PENSTOCK_FOR_CPUS void widen(const std::byte* in, Out* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    In value;
    std::memcpy(&value, in + i * sizeof(In), sizeof(In));
    out[i] = static_cast<Out>(value);
  }
}

template <typename Out>
Result<void> widen_all(data::TokenType type, std::span<const std::byte> in, std::span<Out> out) {
  switch (type) {
    case data::TokenType::kUint8:
      widen<uint8_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kInt8:
      widen<int8_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kInt16:
      widen<int16_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kUint16:
      widen<uint16_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kInt32:
      widen<int32_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kInt64:
      widen<int64_t>(in.data(), out.data(), out.size());
      return {};
    case data::TokenType::kFloat32:
    case data::TokenType::kFloat64:
      break;
  }
  return make_error(ErrorCode::kInvalid, fmt::format("{} are no tokens", token_type_name(type)));
}

}  // namespace

Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int64_t> out) {
  return widen_all(type, in, out);
}

Result<void> widen_tokens(data::TokenType type, std::span<const std::byte> in,
                          std::span<int32_t> out) {
  return widen_all(type, in, out);
}

}  // namespace penstock::loader
