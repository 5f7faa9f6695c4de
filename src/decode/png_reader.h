// PNG files by libpng, row after row.
//
//   PENSTOCK_TRY(reader.open(bytes));
//   PENSTOCK_TRY(reader.start(3));
//   PENSTOCK_TRY(reader.read(rows, reader.row_bytes(), count));
//
// The library leaves by longjmp when it gives up: every call of it is inside attempt(), with
// nothing to destroy in between.
#pragma once

#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/result.h"

namespace penstock::decode {

bool is_png(std::span<const std::byte> encoded);

// Threads: one at a time; of one file. Lifetime: the bytes of open() must stay.
class PngReader {
 public:
  PngReader() = default;
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Result<void> open(std::span<const std::byte> encoded);
  uint32_t width() const { return width_; }
  uint32_t height() const { return height_; }
  uint32_t channels() const;  // As stored; a palette has three.

  // 3: RGB; 1: grey. 16 bits are rounded to 8, transparency is dropped.
  Result<void> start(uint32_t channels);
  size_t row_bytes() const { return size_t{width_} * pixel_bytes_; }
  // The next rows, from the top.
  Result<void> read(uint8_t* rows, size_t stride, uint32_t count);

 private:
  template <typename Call>
  bool attempt(Call call);
  Error error() const;
  Result<void> check_size() const;
  void set_transforms(uint32_t channels);
  Result<void> read_interlaced();
  Result<const uint8_t*> next_row();

  static void on_error(png_structp png, png_const_charp text);
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep target, size_t size);

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128] = {};
  std::span<const std::byte> left_;  // Of the file.
  size_t encoded_bytes_ = 0;
  uint32_t width_ = 0;
  uint32_t height_ = 0;
  uint32_t pixel_bytes_ = 3;  // Of what read() gives.
  bool grey_of_rgb_ = false;  // Grey is made here, not by the library.
  size_t png_row_bytes_ = 0;  // Of what the library gives.
  bool interlaced_ = false;
  uint32_t rows_read_ = 0;
  std::vector<uint8_t> memory_;  // A row; the whole image where it is interlaced.
};

}  // namespace penstock::decode
