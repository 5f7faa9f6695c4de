#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::codec {

#if defined(__x86_64__)
// xxh3-64 with AVX2 instructions. Requires a CPU that has them.
uint64_t hash_avx2(const void* bytes, size_t size, uint64_t seed);
#endif

}  // namespace penstock::codec
