#include "decode/jpeg_huffman.h"

#include <jerror.h>

#include <bit>
#include <cstring>
#include <iterator>

namespace penstock::decode {
namespace {

// Where in a block the coefficients are that a file has in order.
constexpr uint8_t kZigzag[DCTSIZE2] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The number that `size` bits stand for: with a first bit of 0 it is negative.
constexpr int extend(uint64_t bits, int size) {
  const int value = static_cast<int>(bits);
  return value < (1 << size >> 1) ? value - (1 << size) + 1 : value;
}

constexpr bool has_ff(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  return ((~word - kOnes) & word & (kOnes << 7)) != 0;
}

uint64_t load_big_endian(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

[[noreturn]] void fail(jpeg_decompress_struct& info, int message) {
  info.err->msg_code = message;
  info.err->error_exit(reinterpret_cast<j_common_ptr>(&info));
  __builtin_unreachable();
}

}  // namespace

void HuffmanTable::set(const JHUFF_TBL& source) {
  if (is_set_ && std::memcmp(source.bits, source_.bits, sizeof source.bits) == 0 &&
      std::memcmp(source.huffval, source_.huffval, sizeof source.huffval) == 0) {
    return;
  }
  source_ = source;
  is_set_ = true;
  fill_codes();
  fill_wholes();
}

// Codes of a length are numbers one after the other; those of the next go on at twice the number.
// The library has checked that they fit.
void HuffmanTable::fill_codes() {
  std::memset(code_, 0, sizeof code_);
  uint32_t code = 0;
  int32_t symbol = 0;
  for (int length = 1; length <= kBitsMax; ++length) {
    shift_[length] = symbol - static_cast<int32_t>(code);
    for (int i = 0; i < source_.bits[length]; ++i, ++code, ++symbol) {
      if (length > kPeekBits) continue;
      const uint32_t span = 1u << (kPeekBits - length);
      for (uint32_t at = code * span; at < (code + 1) * span && at < std::size(code_); ++at) {
        code_[at] = {source_.huffval[symbol & 0xff], static_cast<uint8_t>(length)};
      }
    }
    end_[length] = code << (kBitsMax - length);
    code <<= 1;
  }
}

void HuffmanTable::fill_wholes() {
  for (uint32_t peek = 0; peek < std::size(whole_); ++peek) {
    const Code code = code_[peek];
    const int zeros = code.symbol >> 4;
    const int size = code.symbol & 15;
    Whole& whole = whole_[peek];
    whole = {};
    if (code.bits == 0 || code.bits + size > kPeekBits) continue;
    const uint32_t value = peek >> (kPeekBits - code.bits - size) & ((1u << size) - 1);
    whole.value = static_cast<int16_t>(extend(value, size));
    // Without a value: sixteen zeros, or the end.
    whole.zeros = size == 0 && zeros != 15 ? kEndOfBlock : static_cast<uint8_t>(zeros);
    whole.bits = static_cast<uint8_t>(code.bits + size);
  }
}

HuffmanTable::Code HuffmanTable::long_code(uint64_t word) const {
  const auto bits = static_cast<uint32_t>(word >> (64 - kBitsMax));
  for (int length = kPeekBits + 1; length <= kBitsMax; ++length) {
    if (bits >= end_[length]) continue;
    const int32_t symbol = static_cast<int32_t>(bits >> (kBitsMax - length)) + shift_[length];
    return {source_.huffval[symbol & 0xff], static_cast<uint8_t>(length)};
  }
  return {};
}

// At least 56 bits, or all that there are.
inline void JpegHuffman::Bits::fill() {
  if (end - next >= 8) {
    const uint64_t ahead = load_big_endian(next);
    if (!has_ff(ahead)) {
      word |= ahead >> held;
      const int64_t bytes = (63 - held) >> 3;
      next += bytes;
      held += bytes * 8;
      return;
    }
  }
  fill_slowly();
}

// An FF is followed by 00, or it is a marker, where the data ends. More FF may stand between.
__attribute__((noinline)) void JpegHuffman::Bits::fill_slowly() {
  while (held <= 56) {
    const uint8_t* after = next;
    while (after != end && *after == 0xff) ++after;
    const bool ff = after != next;
    if (after == end || (ff && *after != 0)) {
      made_up += 64 - held;
      held = 64;
      return;
    }
    word |= uint64_t{ff ? uint8_t{0xff} : *after} << (56 - held);
    held += 8;
    next = after + 1;
  }
}

inline uint64_t JpegHuffman::Bits::take(unsigned count) {
  if (count == 0) return 0;
  const uint64_t bits = word >> (64 - count);
  word <<= count;
  held -= count;
  return bits;
}

inline bool JpegHuffman::decode_first(Bits& bits, const HuffmanTable& table, int& last) {
  if (bits.held < 32) bits.fill();
  const HuffmanTable::Code code = table.code(bits.word);
  if (code.bits == 0 || code.symbol > 15) return false;
  bits.take(code.bits);
  const int difference = extend(bits.take(code.symbol), code.symbol);
  last = static_cast<int>(static_cast<unsigned>(last) + static_cast<unsigned>(difference));
  return true;
}

// A coefficient that is not in the tables as a whole. False where it is no code.
__attribute__((noinline)) bool JpegHuffman::decode_long(Bits& bits, const HuffmanTable& table,
                                                        HuffmanTable::Whole& whole) {
  const HuffmanTable::Code code = table.code(bits.word);
  if (code.bits == 0) return false;
  const int zeros = code.symbol >> 4;
  const int size = code.symbol & 15;
  bits.take(code.bits);
  whole.value = static_cast<int16_t>(extend(bits.take(static_cast<unsigned>(size)), size));
  whole.zeros = size == 0 && zeros != 15 ? HuffmanTable::kEndOfBlock : static_cast<uint8_t>(zeros);
  return true;
}

template <bool kStore>
inline bool JpegHuffman::decode_rest(Bits& bits, const HuffmanTable& table, JCOEF* out) {
  for (uint32_t k = 1; k < DCTSIZE2; ++k) {
    if (bits.held < 32) bits.fill();
    HuffmanTable::Whole whole = table.whole(bits.word);
    if (whole.bits != 0) [[likely]] {
      bits.word <<= whole.bits;
      bits.held -= whole.bits;
    } else if (!decode_long(bits, table, whole)) {
      return false;
    }
    k += whole.zeros;
    if (k >= DCTSIZE2) return k >= HuffmanTable::kEndOfBlock;
    if (kStore) out[kZigzag[k]] = whole.value;
  }
  return true;
}

bool JpegHuffman::decode_blocks(Bits& bits, JBLOCKROW* blocks) {
  for (int i = 0; i < block_count_; ++i) {
    const Block& block = blocks_[i];
    int& last = last_first_[block.component];
    if (!decode_first(bits, *block.dc, last)) return false;
    JCOEF* out = blocks != nullptr && block.first_wanted ? *blocks[i] : nullptr;
    if (out != nullptr) out[0] = static_cast<JCOEF>(last);
    const bool store = out != nullptr && block.rest_wanted;
    if (!(store ? decode_rest<true>(bits, *block.ac, out)
                : decode_rest<false>(bits, *block.ac, nullptr))) {
      return false;
    }
  }
  return true;
}

void JpegHuffman::decode(jpeg_decompress_struct& info, JBLOCKROW* blocks) {
  if (info.restart_interval != 0) {
    if (until_restart_ == 0) restart(info);
    --until_restart_;
  }
  Bits bits = bits_;  // So that the compiler knows that nobody else changes it.
  const bool sound = decode_blocks(bits, blocks);
  bits_ = bits;
  if (bits_.held < bits_.made_up) fail(info, JWRN_HIT_MARKER);
  if (!sound) fail(info, JWRN_HUFF_BAD_CODE);
}

// Bytes before the marker are skipped, as the library does.
void JpegHuffman::restart(jpeg_decompress_struct& info) {
  const uint8_t* at = bits_.next;
  while (bits_.end - at >= 2 && !(at[0] == 0xff && at[1] != 0 && at[1] != 0xff)) ++at;
  if (bits_.end - at < 2) fail(info, JWRN_HIT_MARKER);
  if (at[1] != JPEG_RST0 + restarts_ % 8) fail(info, JWRN_MUST_RESYNC);
  bits_ = {.next = at + 2, .end = bits_.end, .word = 0, .held = 0, .made_up = 0};
  std::memset(last_first_, 0, sizeof last_first_);
  until_restart_ = info.restart_interval;
  ++restarts_;
}

bool JpegHuffman::begin(jpeg_decompress_struct& info) {
  if (info.progressive_mode != 0 || info.arith_code != 0 || jpeg_has_multiple_scans(&info) != 0) {
    return false;
  }
  block_count_ = info.blocks_in_MCU;
  for (int i = 0; i < block_count_; ++i) {
    const int component = info.MCU_membership[i];
    const jpeg_component_info& component_info = *info.cur_comp_info[component];
    const int dc = component_info.dc_tbl_no;
    const int ac = component_info.ac_tbl_no;
    if (info.dc_huff_tbl_ptrs[dc] == nullptr || info.ac_huff_tbl_ptrs[ac] == nullptr) return false;
    dc_[dc].set(*info.dc_huff_tbl_ptrs[dc]);
    ac_[ac].set(*info.ac_huff_tbl_ptrs[ac]);
    const bool wanted = component_info.component_needed != 0;
    blocks_[i] = {.component = static_cast<uint8_t>(component),
                  .first_wanted = wanted,
                  .rest_wanted = wanted && component_info.DCT_scaled_size > 1,
                  .dc = &dc_[dc],
                  .ac = &ac_[ac]};
  }
  bits_ = {.next = info.src->next_input_byte,
           .end = info.src->next_input_byte + info.src->bytes_in_buffer,
           .word = 0,
           .held = 0,
           .made_up = 0};
  std::memset(last_first_, 0, sizeof last_first_);
  until_restart_ = info.restart_interval;
  restarts_ = 0;
  return true;
}

}  // namespace penstock::decode
