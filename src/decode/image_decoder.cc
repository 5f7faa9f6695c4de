#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "decode/finisher.h"
#include "decode/jpeg_reader.h"
#include "decode/placement.h"
#include "decode/png_reader.h"
#include "decode/resizer.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

bool is_jpeg(std::span<const std::byte> encoded) {
  return encoded.size() >= 2 && encoded[0] == std::byte{0xff} && encoded[1] == std::byte{0xd8};
}

Error unknown_format(std::span<const std::byte> encoded) {
  if (encoded.empty()) return make_error(ErrorCode::kCorrupt, "image: no bytes");
  std::string begin;
  for (const std::byte byte : encoded.first(std::min<size_t>(encoded.size(), 8))) {
    begin += fmt::format(" {:02x}", std::to_integer<int>(byte));
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("image: neither JPEG nor PNG (it begins with{}); convert it to one "
                                "of them",
                                begin));
}

// By how much a JPEG may be made smaller so that what is taken of it is still as large as the
// output. Halves only: the library has fast code for those.
uint32_t fitting_eighths(const Placement& placement) {
  const double step = std::min(placement.x.step, placement.y.step);
  uint32_t eighths = 8;
  while (eighths > 1 && step * eighths / 8 >= 2) eighths /= 2;
  return eighths;
}

template <typename Reader>
ImageInfo info_of(const Reader& reader, std::string_view format) {
  return {.width = reader.width(),
          .height = reader.height(),
          .channels = reader.channels(),
          .format = format};
}

}  // namespace

struct ImageDecoder::State {
  JpegReader jpeg;
  Resizer resizer;
  Finisher finisher;
  std::vector<uint8_t> band;  // Rows between a reader and the resizer.

  Result<void> decode_jpeg(const ImageSpec& spec, uint64_t random, std::span<std::byte> out);
  Result<void> decode_png(PngReader& png, const ImageSpec& spec, uint64_t random,
                          std::span<std::byte> out);
  // Reads the rows of the resizer's window; they begin `left_bytes` before it.
  template <typename Reader>
  Result<void> resize(Reader& reader, size_t left_bytes);
};

template <typename Reader>
Result<void> ImageDecoder::State::resize(Reader& reader, size_t left_bytes) {
  // Few enough that they are still in the nearest cache when they are resized.
  constexpr uint32_t kBand = 8;
  static_assert(kBand <= Resizer::kRowsMax);
  const size_t stride = reader.row_bytes();
  band.resize(std::max(band.size(), stride * kBand + resizer.slack_bytes()));
  for (uint32_t left = resizer.window().height; left > 0;) {
    const uint32_t count = std::min(left, kBand);
    PENSTOCK_TRY(reader.read(band.data(), stride, count));
    resizer.add(band.data() + left_bytes, stride, count);
    left -= count;
    while (resizer.take(finisher.next_row())) finisher.commit_row();
  }
  finisher.end();
  return {};
}

Result<void> ImageDecoder::State::decode_jpeg(const ImageSpec& spec, uint64_t random,
                                              std::span<std::byte> out) {
  const Placement placement = place_output(spec, jpeg.width(), jpeg.height(), random);
  const uint32_t eighths = spec.fast_scale ? fitting_eighths(placement) : 8;
  PENSTOCK_TRY(jpeg.start(eighths, spec.channels));
  resizer.plan(placement, eighths, spec.width, spec.height, spec.channels);
  PENSTOCK_TRY(jpeg.select(resizer.window()));
  finisher.begin(spec, random, out);
  return resize(jpeg, jpeg.left_bytes());
}

Result<void> ImageDecoder::State::decode_png(PngReader& png, const ImageSpec& spec, uint64_t random,
                                             std::span<std::byte> out) {
  const Placement placement = place_output(spec, png.width(), png.height(), random);
  PENSTOCK_TRY(png.start(spec.channels));
  resizer.plan(placement, 8, spec.width, spec.height, spec.channels);
  finisher.begin(spec, random, out);
  std::vector<uint8_t> dropped(png.row_bytes());
  for (uint32_t y = 0; y < resizer.window().top; ++y) {
    PENSTOCK_TRY(png.read(dropped.data(), dropped.size(), 1));
  }
  return resize(png, size_t{resizer.window().left} * spec.channels);
}

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;

Result<ImageInfo> ImageDecoder::info(std::span<const std::byte> encoded) {
  if (is_jpeg(encoded)) {
    const auto reader = std::make_unique<JpegReader>();  // Large: its tables.
    PENSTOCK_TRY(reader->open(encoded));
    return info_of(*reader, "jpeg");
  }
  if (is_png(encoded)) {
    PngReader reader;
    PENSTOCK_TRY(reader.open(encoded));
    return info_of(reader, "png");
  }
  return unknown_format(encoded);
}

Result<void> ImageDecoder::decode(std::span<const std::byte> encoded, const ImageSpec& spec,
                                  uint64_t random, std::span<std::byte> out) try {
  assert(spec.check().ok() && out.size() == spec.output_bytes());
  if (is_jpeg(encoded)) {
    PENSTOCK_TRY(state_->jpeg.open(encoded));
    Result<void> result = state_->decode_jpeg(spec, random, out);
    state_->jpeg.close();
    return result;
  }
  if (is_png(encoded)) {
    PngReader png;
    PENSTOCK_TRY(png.open(encoded));
    return state_->decode_png(png, spec, random, out);
  }
  return unknown_format(encoded);
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::kNoMemory, "image: no memory to decode it");
}

namespace {

template <typename Reader>
Result<std::vector<std::byte>> read_whole(Reader& reader) {
  constexpr uint32_t kChannels = 3;
  const size_t row_bytes = size_t{reader.width()} * kChannels;
  std::vector<std::byte> pixels(row_bytes * reader.height());
  auto* out = reinterpret_cast<uint8_t*>(pixels.data());
  if (reader.row_bytes() == row_bytes) {
    PENSTOCK_TRY(reader.read(out, row_bytes, reader.height()));
    return pixels;
  }
  std::vector<uint8_t> row(reader.row_bytes());  // CMYK: wider than what is made of it.
  for (uint32_t y = 0; y < reader.height(); ++y) {
    PENSTOCK_TRY(reader.read(row.data(), row.size(), 1));
    std::memcpy(out + y * row_bytes, row.data(), row_bytes);
  }
  return pixels;
}

}  // namespace

Result<std::vector<std::byte>> ImageDecoder::decode_whole(std::span<const std::byte> encoded,
                                                          ImageInfo* info) try {
  if (is_jpeg(encoded)) {
    JpegReader& reader = state_->jpeg;
    PENSTOCK_TRY(reader.open(encoded));
    if (info != nullptr) *info = info_of(reader, "jpeg");
    PENSTOCK_TRY(reader.start(8, 3));
    Result<std::vector<std::byte>> pixels = read_whole(reader);
    reader.close();
    return pixels;
  }
  if (is_png(encoded)) {
    PngReader reader;
    PENSTOCK_TRY(reader.open(encoded));
    if (info != nullptr) *info = info_of(reader, "png");
    PENSTOCK_TRY(reader.start(3));
    return read_whole(reader);
  }
  return unknown_format(encoded);
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::kNoMemory, "image: no memory to decode it");
}

void ImageDecoder::trim() {
  state_ = std::make_unique<State>();
}

}  // namespace penstock::decode
