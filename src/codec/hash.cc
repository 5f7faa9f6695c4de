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

}  // namespace penstock::codec
