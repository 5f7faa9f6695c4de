#include "decode/png_reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/result_matchers.h"
#include "decode/reference_resize.h"
#include "decode/test_images.h"

namespace penstock::decode {
namespace {

std::vector<uint8_t> whole(const Bytes& file) {
  ImageDecoder decoder;
  const auto pixels = decoder.decode_whole(file, nullptr);
  EXPECT_THAT(pixels, IsOk());
  if (!pixels) return {};
  const auto* bytes = reinterpret_cast<const uint8_t*>(pixels->data());
  return {bytes, bytes + pixels->size()};
}

// The pixels of `image`, whatever its channels, as RGB.
std::vector<uint8_t> as_rgb(const TestImage& image) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < image.pixels.size(); i += image.channels) {
    for (size_t c = 0; c < 3; ++c) out.push_back(image.pixels[i + (image.channels < 3 ? 0 : c)]);
  }
  return out;
}

TEST(PngReader, ReadsEveryColourTypeOfEightBits) {
  for (const bool interlaced : {false, true}) {
    for (const auto& [type, channels] :
         {std::pair{PNG_COLOR_TYPE_GRAY, 1u}, std::pair{PNG_COLOR_TYPE_GRAY_ALPHA, 2u},
          std::pair{PNG_COLOR_TYPE_RGB, 3u}, std::pair{PNG_COLOR_TYPE_RGB_ALPHA, 4u}}) {
      const TestImage image = make_photo(61, 43, 2, channels);
      const Bytes png =
          to_png(image, rows_of(image), {.colour_type = type, .interlaced = interlaced});
      EXPECT_EQ(whole(png), as_rgb(image)) << type;
      const auto info = ImageDecoder::info(png);
      ASSERT_THAT(info, IsOk());
      EXPECT_EQ(info->channels, channels);
      EXPECT_EQ(info->format, "png");
    }
  }
}

TEST(PngReader, DropsTransparentColours) {
  for (const auto& [type, channels] :
       {std::pair{PNG_COLOR_TYPE_GRAY, 1u}, std::pair{PNG_COLOR_TYPE_RGB, 3u}}) {
    const TestImage image = make_photo(61, 43, 2, channels);
    EXPECT_EQ(
        whole(to_png(image, rows_of(image), {.colour_type = type, .transparent_colour = true})),
        as_rgb(image));
  }
}

TEST(PngReader, RoundsSixteenBits) {
  const TestImage image{3, 1, 1, {}};
  for (const bool interlaced : {false, true}) {
    const Bytes png =
        to_png(image, {{0x12, 0x34, 0x80, 0xff, 0xff, 0xff}},
               {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 16, .interlaced = interlaced});
    // v / 257, to the nearest.
    EXPECT_EQ(whole(png),
              (std::vector<uint8_t>{0x12, 0x12, 0x12, 0x80, 0x80, 0x80, 255, 255, 255}));
  }
}

TEST(PngReader, ExpandsFewBits) {
  const TestImage image{8, 1, 1, {}};
  const Bytes png =
      to_png(image, {{0b10110001}}, {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 1});
  std::vector<uint8_t> expected;
  for (const int bit : {1, 0, 1, 1, 0, 0, 0, 1})
    expected.insert(expected.end(), 3, bit != 0 ? 255 : 0);
  EXPECT_EQ(whole(png), expected);
}

TEST(PngReader, LooksUpPalettes) {
  const std::vector<png_color> palette = {{1, 2, 3}, {10, 20, 30}, {100, 110, 120}, {255, 0, 7}};
  const TestImage image{4, 1, 1, {}};
  for (const bool transparent : {false, true}) {
    const Bytes png = to_png(
        image, {{0b11001001}},
        {.colour_type = PNG_COLOR_TYPE_PALETTE, .bit_depth = 2, .transparent_colour = transparent},
        palette);
    EXPECT_EQ(whole(png), (std::vector<uint8_t>{255, 0, 7, 1, 2, 3, 100, 110, 120, 10, 20, 30}));
    EXPECT_EQ(ImageDecoder::info(png)->channels, 3u);
  }
}

TEST(PngReader, PartsAreResized) {
  const TestImage image = make_photo(300, 200);
  for (const bool interlaced : {false, true}) {
    const Bytes png = to_png(image, rows_of(image), {.interlaced = interlaced});
    const ImageSpec spec{.height = 40, .width = 50, .crop = Crop::kRandom, .layout = Layout::kHwc};
    for (uint64_t random = 0; random < 10; ++random) {
      std::vector<uint8_t> out(spec.output_bytes());
      ImageDecoder decoder;
      ASSERT_THAT(decoder.decode(png, spec, random, std::as_writable_bytes(std::span(out))),
                  IsOk());
      const CropBox box = crop_box(spec, 300, 200, random);
      const auto at = [](double x) { return static_cast<uint32_t>(std::lround(x)); };
      const TestImage part =
          reference_crop(image, at(box.left), at(box.top), at(box.width), at(box.height));
      ASSERT_EQ(out, reference_stretch(part, 50, 40).pixels);
    }
  }
}

TEST(PngReader, GreyOfColours) {
  const TestImage image{2, 1, 3, {255, 0, 0, 10, 200, 30}};
  const ImageSpec spec{.height = 1, .width = 2, .channels = 1};
  std::vector<uint8_t> out(2);
  ImageDecoder decoder;
  ASSERT_THAT(decoder.decode(to_png(image, rows_of(image)), spec, 0,
                             std::as_writable_bytes(std::span(out))),
              IsOk());
  EXPECT_EQ(out, (std::vector<uint8_t>{76, 124}));
}

TEST(PngReader, WhatEndsEarlyIsCorrupt) {
  ImageDecoder decoder;
  for (const bool interlaced : {false, true}) {
    const TestImage image = make_photo(60, 40);
    const Bytes png = to_png(image, rows_of(image), {.interlaced = interlaced});
    for (size_t size = 8; size + 20 < png.size(); size += 1 + size / 40) {
      EXPECT_THAT(decoder.decode_whole(std::span(png).first(size), nullptr),
                  FailsWith(ErrorCode::kCorrupt))
          << size;
    }
  }
}

TEST(PngReader, FlippedBitsAreCorruptOrHarmless) {
  ImageDecoder decoder;
  const TestImage image = make_photo(60, 40);
  const Bytes png = to_png(image, rows_of(image));
  for (size_t i = 8; i < png.size(); i += 3) {
    Bytes damaged = png;
    damaged[i] ^= std::byte{0x10};
    const auto pixels = decoder.decode_whole(damaged, nullptr);
    EXPECT_TRUE(pixels.ok() || pixels.error().code == ErrorCode::kCorrupt);
  }
}

TEST(PngReader, FewBytesCannotClaimManyPixels) {
  // Written by hand, since libpng checks the sum of what it reads: 16384 x 16383, and no data.
  const TestImage small{16, 16, 3, std::vector<uint8_t>(16 * 16 * 3)};
  Bytes png = to_png(small, rows_of(small));
  const uint8_t header[] = {'I', 'H', 'D', 'R', 0, 0, 0x40, 0, 0, 0, 0x3f, 0xff, 8, 2, 0, 0, 0};
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : header) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  crc ^= 0xffffffff;
  std::memcpy(png.data() + 12, header, sizeof header);
  for (size_t i = 0; i < 4; ++i)
    png[12 + sizeof header + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  ImageDecoder decoder;
  const auto pixels = decoder.decode_whole(png, nullptr);
  ASSERT_THAT(pixels, FailsWith(ErrorCode::kCorrupt));
  EXPECT_NE(pixels.error().detail.find("cannot hold"), std::string::npos) << pixels.error().detail;
}

}  // namespace
}  // namespace penstock::decode
