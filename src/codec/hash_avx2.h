#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::codec {

#if defined(__x86_64__)
// xxh3-64 with AVX2 instructions. Requires a CPU that has them.
uint64_t hash_avx2(const void* bytes, size_t size, uint64_t seed);
// `state` is an XXH3_state_t, reset by any code.
void hash_update_avx2(void* state, const void* bytes, size_t size);
#endif

}  // namespace penstock::codec
