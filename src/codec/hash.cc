#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/hash_avx2.h"
#include "penstock/frame.h"

namespace penstock::codec {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
#if defined(__x86_64__)
  // xxh3 uses vectors only for longer inputs; short ones stay inline, without a call. The CPU check
  // is one load and test, so it needs no cached answer.
  constexpr size_t kShortBytesMax = 240;
  if (bytes.size() > kShortBytesMax && __builtin_cpu_supports("avx2")) {
    return hash_avx2(bytes.data(), bytes.size(), seed);
  }
#endif
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

static_assert(sizeof(XXH3_state_t) == sizeof(Hasher) && alignof(XXH3_state_t) <= alignof(Hasher));

void Hasher::reset() {
  XXH3_64bits_reset(reinterpret_cast<XXH3_state_t*>(state_));
}

void Hasher::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return hash_update_avx2(state_, bytes.data(), bytes.size());
#endif
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

}  // namespace penstock::codec
