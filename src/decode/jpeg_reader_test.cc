#include "decode/jpeg_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/result_matchers.h"
#include "decode/reference_resize.h"
#include "decode/test_images.h"

namespace penstock::decode {
namespace {

struct Case {
  const char* name;
  JpegOptions options;
};

std::vector<Case> all_kinds() {
  std::vector<Case> cases = {{"444", {.h = 1, .v = 1}},
                             {"422", {.h = 2, .v = 1}},
                             {"420", {.h = 2, .v = 2}},
                             {"440", {.h = 1, .v = 2}},
                             {"411", {.h = 4, .v = 1}},
                             {"grey", {.in_space = JCS_RGB, .space = JCS_GRAYSCALE}},
                             {"rgb", {.h = 1, .v = 1, .space = JCS_RGB}},
                             {"separate", {.separate_scans = true}},
                             {"coarse", {.low_bits_missing = true}}};
  for (size_t i = 0, count = cases.size() - 2; i < count; ++i) {
    cases.push_back(cases[i]);
    cases.back().options.progressive = true;
    cases.push_back(cases[i]);
    cases.back().options.restart_rows = 1;
  }
  return cases;
}

std::string describe(const Case& c, const Window& w, uint32_t eighths) {
  return std::string(c.name) + (c.options.progressive ? " progressive" : "") +
         (c.options.restart_rows != 0 ? " restarts" : "") + " at " + std::to_string(w.left) + "," +
         std::to_string(w.top) + " " + std::to_string(w.width) + "x" + std::to_string(w.height) +
         " " + std::to_string(eighths) + "/8";
}

// What the reader gives of a window; empty where it fails.
TestImage read_window(JpegReader& reader, const Bytes& jpeg, const Window& window, uint32_t eighths,
                      uint32_t channels = 3) {
  TestImage out{window.width, window.height, channels, {}};
  EXPECT_THAT(reader.open(jpeg), IsOk());
  EXPECT_THAT(reader.start(eighths, channels), IsOk());
  EXPECT_THAT(reader.select(window), IsOk());
  std::vector<uint8_t> rows(reader.row_bytes());
  for (uint32_t y = 0; y < window.height; ++y) {
    const Result<void> read = reader.read(rows.data(), rows.size(), 1);
    EXPECT_THAT(read, IsOk());
    if (!read) return out;
    const uint8_t* begin = rows.data() + reader.left_bytes();
    out.pixels.insert(out.pixels.end(), begin, begin + size_t{window.width} * channels);
  }
  return out;
}

void expect_same_as_whole(JpegReader& reader, const Case& c, const Bytes& jpeg,
                          const TestImage& whole, const Window& w, uint32_t eighths,
                          uint32_t channels = 3) {
  const TestImage part = read_window(reader, jpeg, w, eighths, channels);
  const TestImage expected = reference_crop(whole, w.left, w.top, w.width, w.height);
  ASSERT_EQ(part.pixels.size(), expected.pixels.size()) << describe(c, w, eighths);
  ASSERT_TRUE(part.pixels == expected.pixels) << describe(c, w, eighths);
}

TEST(JpegReader, PartsAreThoseOfTheWholeInEveryPlace) {
  JpegReader reader;
  for (const Case& c : all_kinds()) {
    const Bytes jpeg = to_jpeg(make_photo(203, 149), c.options);
    for (const uint32_t eighths : {8u, 4u, 2u, 1u}) {
      const TestImage whole = plain_decode(jpeg, eighths);
      const uint32_t width = std::min(whole.width, 21u);
      const uint32_t height = std::min(whole.height, 13u);
      for (uint32_t at = 0; at + width <= whole.width; ++at) {
        const uint32_t top = at * 7 % (whole.height - height + 1);
        expect_same_as_whole(reader, c, jpeg, whole, {at, top, width, height}, eighths);
      }
      for (uint32_t at = 0; at + height <= whole.height; ++at) {
        const uint32_t left = at * 11 % (whole.width - width + 1);
        expect_same_as_whole(reader, c, jpeg, whole, {left, at, width, height}, eighths);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegReader, PartsOfEverySizeAreThoseOfTheWhole) {
  JpegReader reader;
  std::mt19937 random(3);
  for (const Case& c : all_kinds()) {
    for (int n = 0; n < 40; ++n) {
      const auto width = static_cast<uint32_t>(1 + random() % 300);
      const auto height = static_cast<uint32_t>(1 + random() % 200);
      const Bytes jpeg = to_jpeg(make_photo(width, height, random()), c.options);
      const uint32_t eighths = 1u << random() % 4;
      const TestImage whole = plain_decode(jpeg, eighths);
      Window w;
      w.left = static_cast<uint32_t>(random() % whole.width);
      w.top = static_cast<uint32_t>(random() % whole.height);
      w.width = static_cast<uint32_t>(1 + random() % (whole.width - w.left));
      w.height = static_cast<uint32_t>(1 + random() % (whole.height - w.top));
      expect_same_as_whole(reader, c, jpeg, whole, w, eighths);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegReader, GreyIsTheBrightnessAsStored) {
  JpegReader reader;
  for (const Case& c : all_kinds()) {
    const Bytes jpeg = to_jpeg(make_photo(120, 90), c.options);
    for (const uint32_t eighths : {8u, 4u}) {
      const TestImage whole = plain_decode(jpeg, eighths, JCS_GRAYSCALE);
      expect_same_as_whole(reader, c, jpeg, whole, {17, 11, 30, 25}, eighths, 1);
    }
  }
}

// Inverted, as Adobe's programs write it; and so is what libjpeg gives.
TEST(JpegReader, CmykIsTakenAsInverted) {
  JpegReader reader;
  for (const J_COLOR_SPACE space : {JCS_CMYK, JCS_YCCK}) {
    const JpegOptions options{.quality = 100, .in_space = JCS_CMYK, .space = space};
    const Bytes jpeg = to_jpeg(make_photo(90, 70, 5, 4), options);
    const TestImage cmyk = plain_decode(jpeg, 8, JCS_CMYK);
    const TestImage rgb = read_window(reader, jpeg, {20, 9, 50, 40}, 8);
    ASSERT_EQ(rgb.pixels.size(), size_t{50} * 40 * 3);
    for (uint32_t y = 0; y < 40; ++y) {
      for (uint32_t x = 0; x < 50; ++x) {
        const uint8_t* inks = cmyk.row(y + 9) + (x + 20) * 4;
        for (uint32_t c = 0; c < 3; ++c) {
          const double expected = inks[c] * inks[3] / 255.0;
          ASSERT_NEAR(rgb.row(y)[x * 3 + c], expected, 0.51);
        }
      }
    }
    EXPECT_EQ(read_window(reader, jpeg, {20, 9, 50, 40}, 8, 1).pixels.size(), size_t{50} * 40);
  }
}

ErrorCode whole_error(JpegReader& reader, std::span<const std::byte> jpeg) {
  const auto run = [&]() -> Result<void> {
    PENSTOCK_TRY(reader.open(jpeg));
    PENSTOCK_TRY(reader.start(8, 3));
    std::vector<uint8_t> row(reader.row_bytes());
    for (uint32_t y = 0; y < reader.height(); ++y)
      PENSTOCK_TRY(reader.read(row.data(), row.size(), 1));
    return {};
  };
  const Result<void> result = run();
  return result ? ErrorCode::kClosed : result.error().code;
}

TEST(JpegReader, OnlyTheEndMarkerMayBeMissing) {
  JpegReader reader;
  for (const bool progressive : {false, true}) {
    const Bytes jpeg = to_jpeg(make_photo(100, 80), {.progressive = progressive});
    const std::span<const std::byte> all = jpeg;
    EXPECT_EQ(whole_error(reader, all), ErrorCode::kClosed);
    EXPECT_EQ(whole_error(reader, all.first(all.size() - 1)), ErrorCode::kClosed);
    EXPECT_EQ(whole_error(reader, all.first(all.size() - 2)), ErrorCode::kClosed);
    for (size_t size = 0; size + 4 < all.size(); size += 1 + size / 50) {
      EXPECT_EQ(whole_error(reader, all.first(size)), ErrorCode::kCorrupt) << size;
    }
    EXPECT_EQ(whole_error(reader, all), ErrorCode::kClosed) << "after all these errors";
  }
}

TEST(JpegReader, BytesBetweenMarkersAreNoHarm) {
  JpegReader reader;
  Bytes jpeg = to_jpeg(make_photo(100, 80));
  jpeg.insert(jpeg.end() - 2, 7, std::byte{0x11});
  EXPECT_EQ(whole_error(reader, jpeg), ErrorCode::kClosed);
}

TEST(JpegReader, FewBytesCannotClaimManyPixels) {
  JpegReader reader;
  for (const bool progressive : {false, true}) {
    Bytes jpeg = to_jpeg(make_photo(16, 16), {.progressive = progressive});
    for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
      if (jpeg[i] != std::byte{0xff} || jpeg[i + 1] != std::byte(progressive ? 0xc2 : 0xc0))
        continue;
      for (const size_t at : {i + 5, i + 7}) {
        jpeg[at] = std::byte{0x3f};
        jpeg[at + 1] = std::byte{0xff};
      }
      EXPECT_EQ(whole_error(reader, jpeg), ErrorCode::kCorrupt);
      jpeg[i + 5] = jpeg[i + 7] = std::byte{0xfe};  // 65,535 is more than the format allows.
      EXPECT_EQ(whole_error(reader, jpeg), ErrorCode::kUnsupported);
      break;
    }
  }
}

}  // namespace
}  // namespace penstock::decode
