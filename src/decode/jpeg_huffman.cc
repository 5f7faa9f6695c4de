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

// A block takes at most 64 times 31 bits, and a word is read ahead.
constexpr size_t kPaddingBytes = 512;

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

void HuffmanTable::set(const JHUFF_TBL& source, bool with_pairs) {
  if (is_set_ && std::memcmp(source.bits, source_.bits, sizeof source.bits) == 0 &&
      std::memcmp(source.huffval, source_.huffval, sizeof source.huffval) == 0) {
    return;
  }
  source_ = source;
  is_set_ = true;
  fill_codes();
  if (with_pairs) fill_pairs();
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

// The coefficient of a code that `word` begins with.
inline HuffmanTable::Whole HuffmanTable::whole_of(Code code, uint64_t word) {
  const int zeros = code.symbol >> 4;
  const int size = code.symbol & 15;
  const uint64_t value = size == 0 ? 0 : word << code.bits >> (64 - size);
  // Without a value: sixteen zeros, or the end.
  return {.value = static_cast<int16_t>(extend(value, size)),
          .zeros = size == 0 && zeros != 15 ? kEndOfBlock : static_cast<uint8_t>(zeros),
          .bits = static_cast<uint8_t>(code.bits == 0 ? 0 : code.bits + size)};
}

__attribute__((noinline)) HuffmanTable::Whole HuffmanTable::long_whole(uint64_t word) const {
  return whole_of(code(word), word);
}

void HuffmanTable::fill_pairs() {
  constexpr uint32_t kCount = 1u << kPeekBits;
  Whole wholes[kCount];
  for (uint32_t peek = 0; peek < kCount; ++peek) {
    wholes[peek] = whole_of(code_[peek], uint64_t{peek} << (64 - kPeekBits));
    // Nor where no code is: it may be the beginning of a longer one, not the end of a block.
    if (wholes[peek].bits > kPeekBits || wholes[peek].bits == 0) wholes[peek] = {};
  }
  for (uint32_t peek = 0; peek < kCount; ++peek) {
    const Whole first = wholes[peek];
    Whole second{};
    if (first.bits != 0 && first.zeros != kEndOfBlock) {
      second = wholes[(peek << first.bits) % kCount];
      if (first.bits + second.bits > kPeekBits) second = {};
    }
    pairs_[peek] = {.value = first.value,
                    .second = second.value,
                    .zeros = first.zeros,
                    .first_bits = first.bits,
                    .bits = static_cast<uint8_t>(first.bits + second.bits),
                    .second_step = static_cast<uint8_t>(second.zeros + 1),
                    .two = static_cast<uint8_t>(second.bits != 0 ? 1 : 0)};
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

inline void JpegHuffman::Bits::fill() {
  word |= load_big_endian(next) >> held;
  next += (63 - held) >> 3;
  held |= 56;
}

inline uint64_t JpegHuffman::Bits::take(unsigned count) {
  if (count == 0) return 0;
  const uint64_t bits = word >> (64 - count);
  word <<= count;
  held -= count;
  return bits;
}

__attribute__((always_inline)) inline bool JpegHuffman::decode_first(Bits& bits,
                                                                     const HuffmanTable& table,
                                                                     int& last) {
  bits.fill();
  const HuffmanTable::Code code = table.code(bits.word);
  if (code.bits == 0 || code.symbol > 15) return false;
  bits.take(code.bits);
  const int difference = extend(bits.take(code.symbol), code.symbol);
  last = static_cast<int>(static_cast<unsigned>(last) + static_cast<unsigned>(difference));
  return true;
}

template <bool kStore>
__attribute__((always_inline)) inline bool JpegHuffman::decode_rest(Bits& bits,
                                                                    const HuffmanTable& table,
                                                                    JCOEF* out) {
  // Two from the table leave enough of a full word for a third of any length.
  constexpr int kPerFill = 3;
  static_assert(56 - (kPerFill - 1) * HuffmanTable::kPeekBits >= 31);
  for (uint32_t k = 1; k < DCTSIZE2;) {
    bits.fill();
#pragma GCC unroll 3
    for (int n = 0; n < kPerFill; ++n) {
      HuffmanTable::Pair pair = table.pair(bits.word);
      const bool in_table = pair.first_bits != 0;
      if (!in_table) [[unlikely]] {
        const HuffmanTable::Whole whole = table.long_whole(bits.word);
        if (whole.bits == 0) return false;
        pair = {whole.value, 0, whole.zeros, whole.bits, whole.bits, 1, 0};
      }
      k += pair.zeros;
      if (k >= DCTSIZE2 - 1) [[unlikely]] {
        bits.word <<= pair.first_bits;
        bits.held -= pair.first_bits;
        if (kStore && k == DCTSIZE2 - 1) out[DCTSIZE2 - 1] = pair.value;
        return k == DCTSIZE2 - 1 || k >= HuffmanTable::kEndOfBlock;
      }
      bits.word <<= pair.bits;
      bits.held -= pair.bits;
      if (kStore) out[kZigzag[k]] = pair.value;
      k += pair.second_step;
      if (k >= DCTSIZE2) return k >= HuffmanTable::kEndOfBlock;
      if (kStore) out[kZigzag[k]] = pair.second;
      k += pair.two;
      if (k == DCTSIZE2) return true;
      if (!in_table) break;
    }
  }
  return true;
}

bool JpegHuffman::decode_blocks(JBLOCKROW* blocks) {
  Bits bits = bits_;  // So that the compiler knows that nobody else changes it.
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
    if (overdrawn(bits)) break;
  }
  bits_ = bits;
  return true;
}

inline bool JpegHuffman::overdrawn(const Bits& bits) const {
  return (bits.next - plain_end_) * 8 > bits.held;
}

void JpegHuffman::decode(jpeg_decompress_struct& info, JBLOCKROW* blocks) {
  if (info.restart_interval != 0) {
    if (until_restart_ == 0) restart(info);
    --until_restart_;
  }
  if (!decode_blocks(blocks)) fail(info, JWRN_HUFF_BAD_CODE);
  if (overdrawn(bits_)) fail(info, JWRN_HIT_MARKER);
}

// In data an FF is followed by 00; otherwise it is a marker, which more FF may precede.
void JpegHuffman::begin_data(const uint8_t* data) {
  uint8_t* out = plain_.data();
  for (;;) {
    const size_t left = static_cast<size_t>(file_end_ - data);
    const void* found = left > 0 ? std::memchr(data, 0xff, left) : nullptr;
    const auto* ff = found != nullptr ? static_cast<const uint8_t*>(found) : file_end_;
    std::memcpy(out, data, static_cast<size_t>(ff - data));
    out += ff - data;
    marker_ = ff;
    const uint8_t* after = ff;
    while (after != file_end_ && *after == 0xff) ++after;
    if (after == file_end_ || *after != 0) break;
    *out++ = 0xff;
    data = after + 1;
  }
  std::memset(out, 0, kPaddingBytes);
  plain_end_ = out;
  bits_ = {.next = plain_.data(), .word = 0, .held = 0};
  std::memset(last_first_, 0, sizeof last_first_);
}

void JpegHuffman::restart(jpeg_decompress_struct& info) {
  const uint8_t* at = marker_;
  while (at != file_end_ && *at == 0xff) ++at;
  if (at == file_end_) fail(info, JWRN_HIT_MARKER);
  if (*at != JPEG_RST0 + restarts_ % 8) fail(info, JWRN_MUST_RESYNC);
  begin_data(at + 1);
  until_restart_ = info.restart_interval;
  ++restarts_;
}

bool JpegHuffman::begin(jpeg_decompress_struct& info) {
  const bool whole_blocks = info.Ss == 0 && info.Se == DCTSIZE2 - 1 && info.Ah == 0 && info.Al == 0;
  if (!whole_blocks || info.progressive_mode != 0 || info.arith_code != 0 ||
      info.data_precision != 8 || jpeg_has_multiple_scans(&info) != 0) {
    return false;
  }
  block_count_ = info.blocks_in_MCU;
  for (int i = 0; i < block_count_; ++i) {
    const int component = info.MCU_membership[i];
    const jpeg_component_info& component_info = *info.cur_comp_info[component];
    const int dc = component_info.dc_tbl_no;
    const int ac = component_info.ac_tbl_no;
    if (info.dc_huff_tbl_ptrs[dc] == nullptr || info.ac_huff_tbl_ptrs[ac] == nullptr) return false;
    dc_[dc].set(*info.dc_huff_tbl_ptrs[dc], false);
    ac_[ac].set(*info.ac_huff_tbl_ptrs[ac], true);
    const bool wanted = component_info.component_needed != 0;
    blocks_[i] = {.component = static_cast<uint8_t>(component),
                  .first_wanted = wanted,
                  .rest_wanted = wanted && component_info.DCT_scaled_size > 1,
                  .dc = &dc_[dc],
                  .ac = &ac_[ac]};
  }
  file_end_ = info.src->next_input_byte + info.src->bytes_in_buffer;
  if (plain_.size() < info.src->bytes_in_buffer + kPaddingBytes) {
    plain_.resize(info.src->bytes_in_buffer + kPaddingBytes);
  }
  begin_data(info.src->next_input_byte);
  until_restart_ = info.restart_interval;
  restarts_ = 0;
  return true;
}

}  // namespace penstock::decode
