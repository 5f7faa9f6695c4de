#include "decode/png_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "decode/colour.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

// Of a chunk that is not image data: a profile, a text. None of them is used.
constexpr png_alloc_size_t kChunkBytesMax = 8u << 20;

}  // namespace

bool is_png(std::span<const std::byte> encoded) {
  return encoded.size() >= kSignature.size() &&
         std::memcmp(encoded.data(), kSignature.data(), kSignature.size()) == 0;
}

// Runs `call`, out of which the library may jump: then the answer is false.
template <typename Call>
bool PngReader::attempt(Call call) {
  if (setjmp(jump_) != 0) return false;
  call();
  return true;
}

void PngReader::on_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message_, sizeof reader->message_, "%s", text);
  std::longjmp(reader->jump_, 1);
}

void PngReader::on_read(png_structp png, png_bytep target, size_t size) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader->left_.size()) png_error(png, "it ends early");
  std::memcpy(target, reader->left_.data(), size);
  reader->left_ = reader->left_.subspan(size);
}

PngReader::~PngReader() {
  png_destroy_read_struct(&png_, &info_, nullptr);
}

Error PngReader::error() const {
  const bool memory = std::string_view(message_).find("memory") != std::string_view::npos;
  return make_error(memory ? ErrorCode::kNoMemory : ErrorCode::kCorrupt,
                    fmt::format("PNG: {}", message_));
}

// Deflate makes at most 1,032 bytes of one, so bytes tell how large an image can be.
Result<void> PngReader::check_size() const {
  if (uint64_t{width_} * height_ > kPixelsMax) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("PNG of {} x {} pixels: at most {} are decoded; make it smaller",
                                  width_, height_, kPixelsMax));
  }
  constexpr uint64_t kRatioMax = 1032;
  const uint64_t raw_bytes = uint64_t{png_get_rowbytes(png_, info_)} * height_;
  if (raw_bytes / kRatioMax > encoded_bytes_) {
    return make_error(ErrorCode::kCorrupt, fmt::format("PNG: {} bytes cannot hold {} x {} pixels",
                                                       encoded_bytes_, width_, height_));
  }
  return {};
}

Result<void> PngReader::open(std::span<const std::byte> encoded) {
  left_ = encoded;
  encoded_bytes_ = encoded.size();
  const bool opened = attempt([this] {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return;
    png_set_read_fn(png_, this, on_read);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // check_size() has its own.
    png_set_chunk_malloc_max(png_, kChunkBytesMax);
    // None of the chunks that are not critical matters, but the palette's transparency, which is
    // dropped: damage in them is no reason to refuse an image.
    png_set_crc_action(png_, PNG_CRC_DEFAULT, PNG_CRC_QUIET_USE);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_read_info(png_, info_);
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
  });
  if (!opened) return error();
  if (info_ == nullptr) return make_error(ErrorCode::kNoMemory, "PNG: no memory");
  return check_size();
}

uint32_t PngReader::channels() const {
  const bool palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
  return palette ? 3 : png_get_channels(png_, info_);
}

void PngReader::set_transforms(uint32_t channels) {
  const bool colour = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
  png_set_scale_16(png_);
  png_set_expand(png_);  // Palettes to RGB, grey of fewer bits to 8.
  png_set_strip_alpha(png_);
  if (channels == 3 && !colour) png_set_gray_to_rgb(png_);
  grey_of_rgb_ = channels == 1 && colour;
  interlaced_ = png_set_interlace_handling(png_) > 1;
  png_read_update_info(png_, info_);
  png_row_bytes_ = png_get_rowbytes(png_, info_);
}

Result<void> PngReader::start(uint32_t channels) {
  pixel_bytes_ = channels;
  if (!attempt([this, channels] { set_transforms(channels); })) return error();
  if (png_row_bytes_ != size_t{width_} * (grey_of_rgb_ ? 3 : pixel_bytes_)) {
    return make_error(ErrorCode::kCorrupt, "PNG: rows are not as wide as they should be");
  }
  if (interlaced_) return read_interlaced();
  memory_.resize(png_row_bytes_);
  return {};
}

Result<void> PngReader::read_interlaced() {
  memory_.resize(png_row_bytes_ * height_);
  const bool done = attempt([this] {
    constexpr int kPasses = 7;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (uint32_t y = 0; y < height_; ++y) {
        png_read_row(png_, memory_.data() + y * png_row_bytes_, nullptr);
      }
    }
  });
  if (!done) return error();
  return {};
}

Result<const uint8_t*> PngReader::next_row() {
  if (interlaced_) return memory_.data() + png_row_bytes_ * rows_read_++;
  if (!attempt([this] { png_read_row(png_, memory_.data(), nullptr); })) return error();
  ++rows_read_;
  return memory_.data();
}

Result<void> PngReader::read(uint8_t* rows, size_t stride, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* row = PENSTOCK_TRY(next_row());
    if (grey_of_rgb_) {
      rgb_to_grey(row, width_, rows + i * stride);
    } else {
      std::memcpy(rows + i * stride, row, row_bytes());
    }
  }
  return {};
}

}  // namespace penstock::decode
