// Huffman codes of baseline JPEG files, read in place of libjpeg-turbo's own decoder of them, which
// takes most of the time that decoding needs. This one is faster since one look-up gives a whole
// coefficient, code and value, where both together are short, as most are; and since all bytes are
// there, and are cleared of what stands between data first. Coefficients are the same.
//
// The library calls its decoder through a pointer (jpegint.h; it has been there since 1998), which
// JpegReader makes point here after jpeg_start_decompress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <jpeglib.h>

namespace penstock::decode {

class HuffmanTable {
 public:
  // Does nothing where `source` is what it was before: most files have the same ones. `with_pairs`:
  // pair() will be asked, always or never.
  void set(const JHUFF_TBL& source, bool with_pairs);

  // What the bits mean that a word begins with. 10 bits: tables of two kinds stay in the nearest
  // cache, and nine coefficients in ten are in them.
  static constexpr int kPeekBits = 10;
  // A code and its value.
  struct Whole {
    int16_t value;
    uint8_t zeros;  // That come before it; kEndOfBlock where nothing more comes.
    uint8_t bits;   // 0 where it is no code.
  };
  static constexpr uint8_t kEndOfBlock = 128;
  // One or two of them, as many as are in kPeekBits. Where it is one, the second is a zero at the
  // next place, where what comes next will be put: so both are handled alike. A field for each
  // number, though the last follows from others: in eight bytes it was slower by a tenth.
  struct Pair {
    int16_t value;
    int16_t second;
    uint8_t zeros;
    uint8_t first_bits;  // 0 where not even one is in.
    uint8_t bits;
    uint8_t second_step;  // How far the second is from the first; above kEndOfBlock as in Whole.
    uint8_t two;          // 1 where there are two.
  };
  Pair pair(uint64_t word) const { return pairs_[word >> (64 - kPeekBits)]; }
  // Of any length.
  Whole long_whole(uint64_t word) const;

  // A code alone; `bits` is 0 where it is none.
  struct Code {
    uint8_t symbol;
    uint8_t bits;
  };
  Code code(uint64_t word) const {
    const Code code = code_[word >> (64 - kPeekBits)];
    return code.bits != 0 ? code : long_code(word);
  }

 private:
  static constexpr int kBitsMax = 16;

  Code long_code(uint64_t word) const;
  void fill_codes();
  void fill_pairs();
  static Whole whole_of(Code code, uint64_t word);

  bool is_set_ = false;
  JHUFF_TBL source_{};
  Code code_[1 << kPeekBits] = {};
  Pair pairs_[1 << kPeekBits] = {};
  // Of codes of each length: what all that are not longer are below, as the first of 16 bits; and
  // what to add to one to find its symbol.
  uint32_t end_[kBitsMax + 1] = {};
  int32_t shift_[kBitsMax + 1] = {};
};

// Threads: one at a time.
class JpegHuffman {
 public:
  // After jpeg_start_decompress, before any row is read; all bytes of the file must be in the
  // source's buffer. False where the file is not of the kind that this reads. Takes memory as large
  // as the file, and keeps it.
  bool begin(jpeg_decompress_struct& info);
  // The blocks of the next MCU, which are all zero; null where they are only to be skipped. Bad
  // codes leave by the library's error_exit.
  void decode(jpeg_decompress_struct& info, JBLOCKROW* blocks);

 private:
  // Bits not yet used, and the bytes that they come from.
  struct Bits {
    const uint8_t* next;
    uint64_t word;  // They come first; what comes after them is zero, or the bits at `next`.
    int64_t held;   // How many.

    // To at least 56. No branch: when it is needed is hard to foretell.
    void fill();
    uint64_t take(unsigned count);
  };
  struct Block {
    uint8_t component;
    bool first_wanted;
    bool rest_wanted;
    const HuffmanTable* dc;
    const HuffmanTable* ac;
  };

  bool decode_blocks(JBLOCKROW* blocks);
  static bool decode_first(Bits& bits, const HuffmanTable& table, int& last);
  template <bool kStore>
  static bool decode_rest(Bits& bits, const HuffmanTable& table, JCOEF* out);
  void begin_data(const uint8_t* data);
  bool overdrawn(const Bits& bits) const;
  void restart(jpeg_decompress_struct& info);

  const uint8_t* marker_ = nullptr;  // What follows the data in `plain_`, in the file.
  const uint8_t* file_end_ = nullptr;
  // The data as it is meant: up to the next marker, without the zeros that follow each FF; then
  // zeros, more than a block can ask for.
  std::vector<uint8_t> plain_;
  const uint8_t* plain_end_ = nullptr;
  Bits bits_{};
  uint32_t until_restart_ = 0;
  uint32_t restarts_ = 0;
  int last_first_[MAX_COMPS_IN_SCAN] = {};
  int block_count_ = 0;
  Block blocks_[D_MAX_BLOCKS_IN_MCU] = {};
  HuffmanTable dc_[NUM_HUFF_TBLS];
  HuffmanTable ac_[NUM_HUFF_TBLS];
};

}  // namespace penstock::decode
