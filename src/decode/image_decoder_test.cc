#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/result_matchers.h"
#include "base/sanitized.h"
#include "decode/kernels.h"
#include "decode/placement.h"
#include "decode/random.h"
#include "decode/reference_resize.h"
#include "decode/test_images.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

std::vector<uint8_t> decode_bytes(const Bytes& file, const ImageSpec& spec, uint64_t random = 0) {
  // Exactly as large, so that AddressSanitizer sees a write beyond.
  std::vector<std::byte> out(spec.output_bytes());
  ImageDecoder decoder;
  EXPECT_THAT(decoder.decode(file, spec, random, out), IsOk());
  const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
  return {bytes, bytes + out.size()};
}

ImageSpec exact(ImageSpec spec) {
  spec.fast_scale = false;
  spec.layout = Layout::kHwc;
  return spec;
}

// What a spec should give of an image that was decoded whole: cut out, then resized; or resized,
// then cut out.
TestImage expected_of(const TestImage& whole, const ImageSpec& spec, uint64_t random) {
  const Placement p = place_output(spec, whole.width, whole.height, random);
  const TestImage part = reference_crop(whole, p.x.begin, p.y.begin, p.x.size, p.y.size);
  const auto resized = [](const AxisPlacement& axis) {
    return ReferenceAxis{0, axis.step, static_cast<uint32_t>(std::lround(axis.size / axis.step))};
  };
  const TestImage all = reference_resize(part, resized(p.x), resized(p.y));
  const TestImage out = reference_crop(all, p.x.offset, p.y.offset, spec.width, spec.height);
  return p.flip ? reference_mirror(out) : out;
}

TEST(ImageDecoder, IsTheWholeImageCutAndResized) {
  std::mt19937 random(7);
  for (int n = 0; n < (kSanitized ? 30 : 150); ++n) {
    const auto width = static_cast<uint32_t>(1 + random() % 400);
    const auto height = static_cast<uint32_t>(1 + random() % 300);
    const int sampling = 1 + static_cast<int>(random() % 2);
    const Bytes jpeg = to_jpeg(make_photo(width, height, random()),
                               {.h = sampling, .v = 2, .progressive = random() % 4 == 0});
    ImageSpec spec = exact({.height = static_cast<uint32_t>(1 + random() % 200),
                            .width = static_cast<uint32_t>(1 + random() % 200),
                            .crop = static_cast<Crop>(n % 3),
                            .flip = 0.5});
    if (random() % 2 == 0)
      spec.resize = std::max(spec.height, spec.width) + static_cast<uint32_t>(random() % 99);
    const uint64_t seed = random();
    const TestImage expected = expected_of(plain_decode(jpeg), spec, seed);
    ASSERT_EQ(decode_bytes(jpeg, spec, seed), expected.pixels)
        << n << ": " << width << "x" << height;
  }
}

double mean_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(ImageDecoder, FastScaleIsNearlyTheSame) {
  const Bytes jpeg = to_jpeg(make_photo(1000, 800));
  for (const uint32_t side : {400u, 224u, 130u, 64u, 20u}) {
    ImageSpec spec{.height = side, .width = side, .layout = Layout::kHwc};
    const auto fast = decode_bytes(jpeg, spec);
    EXPECT_LT(mean_difference(fast, decode_bytes(jpeg, exact(spec))), 2.5) << side;
  }
}

TEST(ImageDecoder, LayoutsHoldTheSamePixels) {
  const Bytes jpeg = to_jpeg(make_photo(300, 200));
  ImageSpec spec{.height = 37, .width = 53, .crop = Crop::kRandom, .layout = Layout::kHwc};
  const auto hwc = decode_bytes(jpeg, spec, 5);
  spec.layout = Layout::kChw;
  const auto chw = decode_bytes(jpeg, spec, 5);
  for (size_t i = 0; i < size_t{37} * 53; ++i) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(chw[c * 37 * 53 + i], hwc[3 * i + c]);
  }
}

template <typename T>
std::vector<T> decode_as(const Bytes& file, ImageSpec spec, DType dtype) {
  spec.dtype = dtype;
  std::vector<T> out(spec.output_bytes() / sizeof(T));
  ImageDecoder decoder;
  EXPECT_THAT(decoder.decode(file, spec, 5, std::as_writable_bytes(std::span(out))), IsOk());
  return out;
}

TEST(ImageDecoder, FloatsAreNormalisedBytes) {
  const Bytes jpeg = to_jpeg(make_photo(300, 200));
  for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
    for (const uint32_t channels : {3u, 1u}) {
      ImageSpec spec{
          .height = 41, .width = 61, .crop = Crop::kRandom, .layout = layout, .channels = channels};
      const auto bytes = decode_bytes(jpeg, spec, 5);
      for (const float f : decode_as<float>(jpeg, spec, DType::kFloat32)) ASSERT_LE(f, 1.0f);
      spec.mean = {0.485f, 0.456f, 0.406f};
      spec.std = {0.229f, 0.224f, 0.225f};
      const auto floats = decode_as<float>(jpeg, spec, DType::kFloat32);
      const auto halves = decode_as<uint16_t>(jpeg, spec, DType::kFloat16);
      const auto bfloats = decode_as<uint16_t>(jpeg, spec, DType::kBfloat16);
      ASSERT_EQ(floats.size(), bytes.size());
      for (size_t i = 0; i < floats.size(); ++i) {
        const size_t c = channels == 1 ? 0 : layout == Layout::kHwc ? i % 3 : i / (size_t{41} * 61);
        const double expected = (bytes[i] / 255.0 - (*spec.mean)[c]) / (*spec.std)[c];
        ASSERT_NEAR(floats[i], expected, 1e-6);
        ASSERT_EQ(halves[i], float_to_half(floats[i]));
        ASSERT_EQ(bfloats[i], float_to_bfloat(floats[i]));
      }
    }
  }
}

TEST(ImageDecoder, GreyIsTheBrightness) {
  const Bytes jpeg = to_jpeg(make_photo(300, 200));
  const ImageSpec spec = exact({.height = 50, .width = 60, .channels = 1});
  EXPECT_EQ(decode_bytes(jpeg, spec),
            reference_stretch(plain_decode(jpeg, 8, JCS_GRAYSCALE), 60, 50).pixels);
}

// Blends as Pillow's ImageEnhance: towards zero, the mean grey rounded.
uint8_t reference_blend(double base, float factor, uint8_t value) {
  const float mixed =
      static_cast<float>(base) + factor * (static_cast<float>(value) - static_cast<float>(base));
  return static_cast<uint8_t>(std::clamp(mixed, 0.0f, 255.0f));
}
uint8_t reference_grey(const uint8_t* p) {
  return static_cast<uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
}
void reference_jitter(std::vector<uint8_t>& pixels, float brightness, float contrast,
                      float saturation) {
  for (uint8_t& p : pixels) p = reference_blend(0, brightness, p);
  double sum = 0;
  for (size_t i = 0; i < pixels.size(); i += 3) sum += reference_grey(&pixels[i]);
  const int mean = static_cast<int>(sum / (static_cast<double>(pixels.size()) / 3) + 0.5);
  for (uint8_t& p : pixels) p = reference_blend(mean, contrast, p);
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const uint8_t grey = reference_grey(&pixels[i]);
    for (size_t c = 0; c < 3; ++c) pixels[i + c] = reference_blend(grey, saturation, pixels[i + c]);
  }
}

TEST(ImageDecoder, JitterIsThatOfPillow) {
  const Bytes jpeg = to_jpeg(make_photo(120, 90));
  const ImageSpec plain = exact({.height = 33, .width = 47});
  ImageSpec spec = plain;
  spec.brightness = 0.4;
  spec.contrast = 0.5;
  spec.saturation = 1.6;
  for (uint64_t random = 0; random < 20; ++random) {
    const Draws draws(random);
    auto expected = decode_bytes(jpeg, plain, random);
    reference_jitter(expected, static_cast<float>(draws.uniform(kPlaceBrightness, 0.6, 1.4)),
                     static_cast<float>(draws.uniform(kPlaceContrast, 0.5, 1.5)),
                     static_cast<float>(draws.uniform(kPlaceSaturation, 0.0, 2.6)));
    ASSERT_EQ(decode_bytes(jpeg, spec, random), expected);
  }
}

TEST(ImageDecoder, OneDecoderTakesImagesOfAllKindsAndErrors) {
  ImageDecoder decoder;
  const ImageSpec spec{.height = 32, .width = 32, .crop = Crop::kRandom};
  std::vector<std::byte> out(spec.output_bytes()), again(spec.output_bytes());
  std::mt19937 random(5);
  for (int n = 0; n < 100; ++n) {
    const TestImage image = make_photo(static_cast<uint32_t>(20 + random() % 500),
                                       static_cast<uint32_t>(20 + random() % 500));
    const Bytes file =
        n % 3 == 0 ? to_png(image, rows_of(image)) : to_jpeg(image, {.progressive = n % 4 == 0});
    ASSERT_THAT(decoder.decode(file, spec, random(), out), IsOk());
    EXPECT_THAT(decoder.decode(std::span(file).first(file.size() / 9), spec, 3, again),
                FailsWith(ErrorCode::kCorrupt));
    if (n % 10 == 0) decoder.trim();
  }
}

TEST(ImageDecoder, SaysWhatItDoesNotRead) {
  ImageDecoder decoder;
  const ImageSpec spec{.height = 8, .width = 8};
  std::vector<std::byte> out(spec.output_bytes());
  const auto gif = std::as_bytes(std::span("GIF89a......", 12));
  EXPECT_THAT(decoder.decode(gif, spec, 0, out), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(decoder.decode({}, spec, 0, out), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(decoder.decode_whole(gif, nullptr), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(ImageDecoder::info(gif), FailsWith(ErrorCode::kUnsupported));
}

TEST(ImageDecoder, WholeImagesAndInfo) {
  ImageDecoder decoder;
  const Bytes jpeg = to_jpeg(make_photo(123, 45));
  ImageInfo info;
  const auto pixels = decoder.decode_whole(jpeg, &info);
  ASSERT_THAT(pixels, IsOk());
  const TestImage whole = plain_decode(jpeg);
  ASSERT_EQ(pixels->size(), whole.pixels.size());
  EXPECT_EQ(std::memcmp(pixels->data(), whole.pixels.data(), whole.pixels.size()), 0);
  EXPECT_EQ(info.width, 123u);
  EXPECT_EQ(info.height, 45u);
  EXPECT_EQ(info.channels, 3u);
  EXPECT_EQ(info.format, "jpeg");
  const auto cmyk = to_jpeg(make_photo(31, 17, 1, 4), {.in_space = JCS_CMYK, .space = JCS_YCCK});
  ASSERT_THAT(decoder.decode_whole(cmyk, &info), IsOk());
  EXPECT_EQ(info.channels, 4u);
}

TEST(EncodeJpeg, KeepsWhatItIsGivenAndFits) {
  ImageDecoder decoder;
  const TestImage photo = make_photo(640, 333, 1, 3, 0);
  const auto bytes = std::as_bytes(std::span(photo.pixels));
  const auto same = encode_jpeg(bytes, 640, 333, 0, 95);
  ASSERT_THAT(same, IsOk());
  EXPECT_LT(mean_difference(plain_decode(*same).pixels, photo.pixels), 4);
  const auto smaller = encode_jpeg(bytes, 640, 333, 256, 95);
  ASSERT_THAT(smaller, IsOk());
  const TestImage small = plain_decode(*smaller);
  EXPECT_EQ(small.width, 256u);
  EXPECT_EQ(small.height, 133u);
  EXPECT_LT(mean_difference(small.pixels, reference_stretch(photo, 256, 133).pixels), 4);
  EXPECT_THAT(encode_jpeg(bytes, 640, 332, 0, 95), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(encode_jpeg(bytes, 640, 333, 0, 0), FailsWith(ErrorCode::kInvalid));
}

TEST(ImageDecoder, ThreadsDoNotMeet) {
  const Bytes jpeg = to_jpeg(make_photo(300, 200));
  const ImageSpec spec{.height = 64, .width = 64, .crop = Crop::kRandom, .dtype = DType::kFloat32};
  const auto expected = decode_bytes(jpeg, spec, 11);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_EQ(decode_bytes(jpeg, spec, 11), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::decode
