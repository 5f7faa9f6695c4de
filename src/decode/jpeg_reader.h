// Parts of JPEG files, by libjpeg-turbo: only the columns that are needed are transformed, rows
// above are only read through, and nothing is read after the last row wanted.
//
//   PENSTOCK_TRY(reader.open(bytes));
//   PENSTOCK_TRY(reader.start(8, 3));
//   PENSTOCK_TRY(reader.select(window));
//   PENSTOCK_TRY(reader.read(rows, reader.row_bytes(), window.height));
//
// Pixels are those of a decode of the whole at the same scale. The library leaves by longjmp when
// it gives up: every call of it is inside attempt(), with nothing to destroy in between.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include <jpeglib.h>

#include "decode/jpeg_huffman.h"
#include "decode/resizer.h"
#include "penstock/result.h"

namespace penstock::decode {

// Threads: one at a time. Lifetime: the bytes of open() must stay until close().
class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Reads the header. Requires nothing of what was open before.
  Result<void> open(std::span<const std::byte> encoded);
  uint32_t width() const { return info_.image_width; }
  uint32_t height() const { return info_.image_height; }
  uint32_t channels() const { return static_cast<uint32_t>(info_.num_components); }

  // Whether codes are read by JpegHuffman where it can; otherwise by the library. For tests.
  void use_own_huffman(bool own) { own_huffman_ = own; }

  // Decodes so that eight pixels become `eighths`. `channels` 3 gives RGB, 1 grey.
  Result<void> start(uint32_t eighths, uint32_t channels);
  // Once: which part read() gives, in pixels of the scaled image. Rows from read() begin
  // left_bytes() before the window.
  Result<void> select(const Window& window);
  size_t left_bytes() const { return left_bytes_; }
  // How far apart rows must be at least.
  size_t row_bytes() const;
  // The next `count` rows of the window.
  Result<void> read(uint8_t* rows, size_t stride, uint32_t count);
  // Forgets the file and gives back the memory that it needed.
  void close();

 private:
  template <typename Call>
  bool attempt(Call call);
  Error error() const;
  Result<void> check_size() const;
  J_COLOR_SPACE output_space(uint32_t channels) const;
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }
  bool has_all_bits(int coefficients) const;
  void skip_to(const Window& window);
  void read_row(uint8_t* row);
  void convert(uint8_t* row) const;

  static void on_error(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);
  static boolean on_mcu(j_decompress_ptr info, JBLOCKROW* blocks);
  static boolean on_end(j_decompress_ptr info);
  static void on_skip(j_decompress_ptr info, long count);

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  JpegHuffman huffman_;
  size_t encoded_bytes_ = 0;
  bool own_huffman_ = true;
  bool ended_ = false;         // All bytes were read, and more were asked for.
  bool grey_of_cmyk_ = false;  // Grey is made here, not by the library.
  uint32_t rows_to_drop_ = 0;
  size_t left_bytes_ = 0;
};

}  // namespace penstock::decode
