// Images for the tests of this layer, and files of them with every feature that is read.
#pragma once

#include <jpeglib.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <vector>

#include "penstock/decode.h"

namespace penstock::decode {

using Bytes = std::vector<std::byte>;

// HWC, as all images here.
struct TestImage {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 3;
  std::vector<uint8_t> pixels;

  const uint8_t* row(uint32_t y) const { return pixels.data() + size_t{y} * width * channels; }
};

// Like a photograph: smooth parts, edges, noise.
inline TestImage make_photo(uint32_t width, uint32_t height, uint64_t seed = 1,
                            uint32_t channels = 3, double noise = 12) {
  std::mt19937_64 random(seed);
  TestImage image{width, height, channels, std::vector<uint8_t>(size_t{width} * height * channels)};
  size_t at = 0;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      const bool inside = (x / 37 + y / 23 + seed) % 3 == 0;
      for (uint32_t c = 0; c < channels; ++c) {
        const double wave =
            60 * std::sin(x * 0.05 * (c + 1) + y * 0.031) + 40 * std::cos(y * 0.07 * (c + 1));
        const double grain = noise * (static_cast<double>(random() >> 11) * 0x1.0p-52 - 1);
        const double value = 120 + wave + grain + (inside ? 50.0 - 45.0 * c : 0.0);
        image.pixels[at++] = static_cast<uint8_t>(std::min(std::max(value, 0.0), 255.0));
      }
    }
  }
  return image;
}

struct JpegOptions {
  int quality = 90;
  int h = 2, v = 2;  // Subsampling of colour.
  bool progressive = false;
  int restart_rows = 0;
  bool optimised = false;            // Codes made for this image.
  J_COLOR_SPACE in_space = JCS_RGB;  // JCS_GRAYSCALE for one channel, JCS_CMYK for four.
  J_COLOR_SPACE space = JCS_YCbCr;   // JCS_GRAYSCALE, JCS_RGB, JCS_CMYK or JCS_YCCK.
  bool separate_scans = false;       // Baseline, a pass for each component.
  bool low_bits_missing = false;     // Progressive, without its last passes.
};

namespace test_images_internal {

// Passes of a progressive file that knows all but the last bits.
inline constexpr jpeg_scan_info kCoarse[] = {{3, {0, 1, 2, 0}, 0, 0, 0, 1},
                                             {1, {0, 0, 0, 0}, 1, 63, 0, 2},
                                             {1, {1, 0, 0, 0}, 1, 63, 0, 1},
                                             {1, {2, 0, 0, 0}, 1, 63, 0, 1}};
inline constexpr jpeg_scan_info kSeparate[] = {
    {1, {0, 0, 0, 0}, 0, 63, 0, 0}, {1, {1, 0, 0, 0}, 0, 63, 0, 0}, {1, {2, 0, 0, 0}, 0, 63, 0, 0}};

inline void set_options(jpeg_compress_struct& info, const JpegOptions& options) {
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, options.space);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (info.num_components == 3) {
    info.comp_info[0].h_samp_factor = options.h;
    info.comp_info[0].v_samp_factor = options.v;
  }
  if (options.progressive) jpeg_simple_progression(&info);
  if (options.separate_scans) {
    info.scan_info = kSeparate;
    info.num_scans = 3;
  }
  if (options.low_bits_missing) {
    info.scan_info = kCoarse;
    info.num_scans = 4;
  }
  info.restart_in_rows = options.restart_rows;
  if (options.optimised) info.optimize_coding = TRUE;
}

}  // namespace test_images_internal

inline Bytes to_jpeg(const TestImage& image, const JpegOptions& options = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT: the library's type.
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = image.width;
  info.image_height = image.height;
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = options.in_space;
  test_images_internal::set_options(info, options);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW rows[1] = {const_cast<uint8_t*>(image.row(info.next_scanline))};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  Bytes result(bytes, bytes + size);
  jpeg_destroy_compress(&info);
  std::free(memory);  // NOLINT: the library took it with malloc.
  return result;
}

// The whole of it, by the library alone; `eighths` as in JpegReader.
inline TestImage plain_decode(std::span<const std::byte> jpeg, uint32_t eighths = 8,
                              J_COLOR_SPACE space = JCS_RGB) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&info, TRUE);
  info.scale_num = eighths;
  info.scale_denom = 8;
  info.out_color_space = space;
  jpeg_start_decompress(&info);
  TestImage image{
      info.output_width, info.output_height, static_cast<uint32_t>(info.output_components), {}};
  image.pixels.resize(size_t{image.width} * image.height * image.channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[1] = {const_cast<uint8_t*>(image.row(info.output_scanline))};
    jpeg_read_scanlines(&info, rows, 1);
  }
  jpeg_destroy_decompress(&info);
  return image;
}

struct PngOptions {
  int colour_type = PNG_COLOR_TYPE_RGB;
  int bit_depth = 8;
  bool interlaced = false;
  bool transparent_colour = false;  // A tRNS chunk.
};

namespace test_images_internal {

inline void append_png(png_structp png, png_bytep data, size_t size) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  out->insert(out->end(), reinterpret_cast<std::byte*>(data),
              reinterpret_cast<std::byte*>(data) + size);
}

inline void set_png_header(png_structp png, png_infop info, const TestImage& image,
                           const PngOptions& options, std::span<const png_color> palette) {
  png_set_IHDR(png, info, image.width, image.height, options.bit_depth, options.colour_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (options.transparent_colour) {
    const uint8_t alpha[2] = {0, 128};
    const png_color_16 colour{};
    const bool indexed = options.colour_type == PNG_COLOR_TYPE_PALETTE;
    png_set_tRNS(png, info, indexed ? alpha : nullptr, indexed ? 2 : 0,
                 indexed ? nullptr : &colour);
  }
  png_write_info(png, info);
}

}  // namespace test_images_internal

// `rows` are as PNG stores them: of 16 bits big-endian, of fewer than 8 packed.
inline Bytes to_png(const TestImage& image, const std::vector<std::vector<uint8_t>>& rows,
                    const PngOptions& options = {}, std::span<const png_color> palette = {}) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, test_images_internal::append_png, nullptr);
  test_images_internal::set_png_header(png, info, image, options, palette);
  std::vector<png_bytep> pointers;
  for (const auto& row : rows) pointers.push_back(const_cast<png_bytep>(row.data()));
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

inline std::vector<std::vector<uint8_t>> rows_of(const TestImage& image) {
  std::vector<std::vector<uint8_t>> rows;
  for (uint32_t y = 0; y < image.height; ++y) {
    rows.emplace_back(image.row(y), image.row(y) + size_t{image.width} * image.channels);
  }
  return rows;
}

}  // namespace penstock::decode
