#include <xxhash.h>

#include "penstock/frame.h"

namespace penstock::codec {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace penstock::codec
