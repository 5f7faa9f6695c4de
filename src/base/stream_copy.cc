#include "base/stream_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock {

#if defined(__x86_64__)

namespace {

// Below it the caches hold what is copied, and the fence costs more than it brings.
constexpr size_t kStreamBytesMin = 64 * 1024;
constexpr size_t kLine = 64;

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kStreamBytesMin) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  const size_t lines = bytes / kLine;
  auto* target = reinterpret_cast<__m128i*>(to);
  const auto* source = reinterpret_cast<const __m128i*>(from);
  for (size_t i = 0; i < lines; ++i, target += 4, source += 4) {
    _mm_prefetch(reinterpret_cast<const char*>(source + 32), _MM_HINT_NTA);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memcpy(to + lines * kLine, from + lines * kLine, bytes - lines * kLine);
}

#else

void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace penstock
