#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include "decode/resizer.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

// All that the library holds; it leaves by longjmp when it gives up.
class JpegWriter {
 public:
  JpegWriter() {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) {
      std::longjmp(static_cast<JpegWriter*>(info->client_data)->jump_, 1);
    };
    errors_.emit_message = [](j_common_ptr, int) {};
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(target_);  // NOLINT: the library took it with malloc.
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  Result<std::vector<std::byte>> write(const uint8_t* pixels, uint32_t width, uint32_t height,
                                       int quality) {
    if (!compress(pixels, width, height, quality)) {
      char text[JMSG_LENGTH_MAX];
      errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), text);
      return make_error(ErrorCode::kNoMemory, fmt::format("JPEG: {}", text));
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(target_);
    return std::vector<std::byte>(bytes, bytes + target_bytes_);
  }

 private:
  bool compress(const uint8_t* pixels, uint32_t width, uint32_t height, int quality) {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &target_, &target_bytes_);
    info_.image_width = width;
    info_.image_height = height;
    info_.input_components = 3;
    info_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info_);  // Colour at half the resolution, both ways.
    jpeg_set_quality(&info_, quality, TRUE);
    info_.optimize_coding = TRUE;  // A few percent smaller; read as fast, many times.
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < height) {
      JSAMPROW row[1] = {const_cast<uint8_t*>(pixels) + size_t{info_.next_scanline} * width * 3};
      jpeg_write_scanlines(&info_, row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  jpeg_compress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  unsigned char* target_ = nullptr;
  unsigned long target_bytes_ = 0;  // NOLINT: the library's type.
};

struct Size {
  uint32_t width, height;
};

Size fit(uint32_t width, uint32_t height, uint32_t max_side) {
  const uint32_t longer = std::max(width, height);
  if (max_side == 0 || longer <= max_side) return {width, height};
  const auto scaled = [&](uint32_t side) {
    return std::max(1u, static_cast<uint32_t>(std::lround(double{1} * side * max_side / longer)));
  };
  return {scaled(width), scaled(height)};
}

std::vector<uint8_t> resize(const uint8_t* pixels, uint32_t width, uint32_t height, Size size) {
  const Placement placement{.x = {0, width, 0, static_cast<double>(width) / size.width},
                            .y = {0, height, 0, static_cast<double>(height) / size.height}};
  Resizer resizer;
  resizer.plan(placement, 8, size.width, size.height, 3);
  const size_t stride = size_t{width} * 3;
  const size_t out_stride = size_t{size.width} * 3;
  std::vector<uint8_t> band(stride + resizer.slack_bytes());
  std::vector<uint8_t> out(out_stride * size.height + kRowSlackBytes);
  uint8_t* out_row = out.data();
  const Window window = resizer.window();
  for (uint32_t y = window.top; y < window.top + window.height; ++y) {
    std::memcpy(band.data(), pixels + y * stride, stride);
    resizer.add(band.data() + size_t{window.left} * 3, stride, 1);
    while (resizer.take(out_row)) out_row += out_stride;
  }
  return out;
}

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(std::span<const std::byte> pixels, uint32_t width,
                                           uint32_t height, uint32_t max_side, int quality) {
  if (width == 0 || height == 0 || pixels.size() != size_t{width} * height * 3) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("JPEG: {} bytes are not {} x {} pixels of three", pixels.size(),
                                  width, height));
  }
  if (quality < 1 || quality > 100) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("JPEG: quality is {}; it may be 1 to 100", quality));
  }
  const Size size = fit(width, height, max_side);
  if (std::max(size.width, size.height) > JPEG_MAX_DIMENSION) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("JPEG: {} x {}: no side may be longer than {}", size.width,
                                  size.height, JPEG_MAX_DIMENSION));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(pixels.data());
  JpegWriter writer;
  if (size.width == width && size.height == height) {
    return writer.write(bytes, width, height, quality);
  }
  const std::vector<uint8_t> smaller = resize(bytes, width, height, size);
  return writer.write(smaller.data(), size.width, size.height, quality);
}

}  // namespace penstock::decode
