#include "codec/compress.h"

#include <fmt/format.h>
#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cassert>
#include <cstring>
#include <memory>

#include "codec/spec.h"

namespace penstock::codec {
namespace {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* state) const {
    kFree(state);
  }
};

// This thread's state, made when first asked for. Null when there is no memory for it.
template <typename T, auto kCreate, auto kFree>
T* thread_state() {
  thread_local std::unique_ptr<T, FreeWith<kFree>> state;
  if (!state) state.reset(kCreate());
  return state.get();
}

Error no_memory(Codec codec) {
  return make_error(ErrorCode::kNoMemory,
                    fmt::format("no memory for the working state of {}", codec_name(codec)));
}

Error corrupt_payload(Codec codec, std::string_view why) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("payload is not valid {}: {}", codec_name(codec), why));
}

const char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

char* chars(std::span<std::byte> bytes) {
  return reinterpret_cast<char*>(bytes.data());
}

// LZ4 counts in int; frames are far below its limit.
int int_size(std::span<const std::byte> bytes) {
  return static_cast<int>(bytes.size());
}

Result<size_t> compress_lz4(std::span<const std::byte> raw, std::span<std::byte> out, int level) {
  if (level == 0) {  // Its state is small enough for the stack.
    return static_cast<size_t>(
        LZ4_compress_default(chars(raw), chars(out), int_size(raw), int_size(out)));
  }
  auto* state = thread_state<LZ4_streamHC_t, LZ4_createStreamHC, LZ4_freeStreamHC>();
  if (state == nullptr) return no_memory(Codec::kLz4);
  return static_cast<size_t>(LZ4_compress_HC_extStateHC(state, chars(raw), chars(out),
                                                        int_size(raw), int_size(out), level));
}

Result<size_t> compress_zstd(std::span<const std::byte> raw, std::span<std::byte> out, int level) {
  auto* context = thread_state<ZSTD_CCtx, ZSTD_createCCtx, ZSTD_freeCCtx>();
  if (context == nullptr) return no_memory(Codec::kZstd);
  const size_t length = ZSTD_compressCCtx(context, out.data(), out.size(), raw.data(), raw.size(),
                                          level == 0 ? kZstdLevelDefault : level);
  if (!ZSTD_isError(length)) return length;
  if (ZSTD_getErrorCode(length) == ZSTD_error_dstSize_tooSmall) return size_t{0};
  // With checked arguments, memory is all that can be missing.
  assert(ZSTD_getErrorCode(length) == ZSTD_error_memory_allocation);
  return no_memory(Codec::kZstd);
}

Result<void> decompress_lz4(std::span<const std::byte> stored, std::span<std::byte> out) {
  const int length =
      LZ4_decompress_safe(chars(stored), chars(out), int_size(stored), int_size(out));
  if (length < 0) return corrupt_payload(Codec::kLz4, "malformed, or longer than declared");
  if (length != int_size(out)) return corrupt_payload(Codec::kLz4, "shorter than declared");
  return {};
}

// Exactly one frame of today's zstd format that declares the right size. The library alone would
// also take skippable frames, several frames, and formats older than 1.0, whose decoders are best
// kept away from unknown bytes.
Result<void> check_zstd(std::span<const std::byte> stored, size_t raw_bytes) {
  constexpr std::array<unsigned char, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};
  if (stored.size() < kZstdMagic.size() ||
      std::memcmp(stored.data(), kZstdMagic.data(), kZstdMagic.size()) != 0) {
    return corrupt_payload(Codec::kZstd, "not a zstd frame");
  }
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != raw_bytes) {
    return corrupt_payload(Codec::kZstd, "it declares another size than the frame");
  }
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
    return corrupt_payload(Codec::kZstd, "not one whole zstd frame");
  }
  return {};
}

Result<void> decompress_zstd(std::span<const std::byte> stored, std::span<std::byte> out) {
  PENSTOCK_TRY(check_zstd(stored, out.size()));
  auto* context = thread_state<ZSTD_DCtx, ZSTD_createDCtx, ZSTD_freeDCtx>();
  if (context == nullptr) return no_memory(Codec::kZstd);
  const size_t length =
      ZSTD_decompressDCtx(context, out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(length)) return corrupt_payload(Codec::kZstd, ZSTD_getErrorName(length));
  if (length != out.size()) return corrupt_payload(Codec::kZstd, "shorter than declared");
  return {};
}

}  // namespace

Result<size_t> compress(std::span<const std::byte> raw, std::span<std::byte> out,
                        const CodecSpec& spec) {
  assert(spec.codec != Codec::kNone && !raw.empty() && raw.size() <= kFrameBytesMax);
  if (out.empty()) return size_t{0};
  return spec.codec == Codec::kLz4 ? compress_lz4(raw, out, spec.level)
                                   : compress_zstd(raw, out, spec.level);
}

Result<void> decompress(Codec codec, std::span<const std::byte> stored, std::span<std::byte> out) {
  assert(stored.size() <= kFrameBytesMax && out.size() <= kFrameBytesMax);
  switch (codec) {
    case Codec::kNone:
      if (stored.size() != out.size()) return corrupt_payload(codec, "of another length");
      std::memcpy(out.data(), stored.data(), stored.size());
      return {};
    case Codec::kLz4:
      return decompress_lz4(stored, out);
    case Codec::kZstd:
      return decompress_zstd(stored, out);
  }
  return corrupt_payload(codec, "no such codec");
}

}  // namespace penstock::codec
