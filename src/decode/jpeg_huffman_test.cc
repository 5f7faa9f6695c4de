#include "decode/jpeg_huffman.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "base/result_matchers.h"
#include "decode/jpeg_reader.h"
#include "decode/test_images.h"

namespace penstock::decode {
namespace {

std::optional<std::vector<uint8_t>> read_all(JpegReader& reader, const Bytes& jpeg, bool own,
                                             uint32_t eighths = 8) {
  reader.use_own_huffman(own);
  if (!reader.open(jpeg) || !reader.start(eighths, 3)) return std::nullopt;
  const uint32_t height = (reader.height() * eighths + 7) / 8;
  std::vector<uint8_t> pixels(reader.row_bytes() * height);
  if (!reader.read(pixels.data(), reader.row_bytes(), height)) return std::nullopt;
  return pixels;
}

// From few, short codes to many that are longer than the tables of pairs.
TEST(JpegHuffman, GivesWhatTheLibraryGives) {
  JpegReader reader;
  std::mt19937 random(1);
  for (int n = 0; n < 400; ++n) {
    const auto width = static_cast<uint32_t>(1 + random() % 150);
    const auto height = static_cast<uint32_t>(1 + random() % 150);
    JpegOptions options{.quality = static_cast<int>(1 + random() % 100)};
    options.h = static_cast<int>(1 + random() % 2);
    options.v = static_cast<int>(1 + random() % 2);
    options.restart_rows = static_cast<int>(random() % 3);
    options.optimised = random() % 2 == 0;
    const double noise = n % 3 == 0 ? 250 : n % 3 == 1 ? 20 : 0;
    const Bytes jpeg = to_jpeg(make_photo(width, height, random(), 3, noise), options);
    for (const uint32_t eighths : {8u, 4u, 1u}) {
      const auto own = read_all(reader, jpeg, true, eighths);
      ASSERT_TRUE(own.has_value()) << n;
      ASSERT_TRUE(own == read_all(reader, jpeg, false, eighths)) << n;
    }
  }
}

// It may call damage what the library lets pass (a run of zeros beyond the end of a block), but not
// the other way round.
TEST(JpegHuffman, TakesNoDamageForDataThatTheLibraryDoesNot) {
  JpegReader reader;
  std::mt19937 random(2);
  int refused = 0;
  constexpr int kCount = 4000;
  Bytes jpeg;
  for (int n = 0; n < kCount; ++n) {
    if (n % 100 == 0) {
      jpeg = to_jpeg(make_photo(64, 48, random(), 3, n % 200 == 0 ? 250 : 10),
                     {.restart_rows = static_cast<int>(random() % 2)});
    }
    Bytes damaged = jpeg;
    for (auto i = 1 + random() % 3; i > 0; --i) {
      damaged[300 + random() % (damaged.size() - 300)] = static_cast<std::byte>(random());
    }
    const auto own = read_all(reader, damaged, true);
    refused += own ? 0 : 1;
    ASSERT_TRUE(!own || own == read_all(reader, damaged, false)) << n;
  }
  EXPECT_GT(refused, kCount / 4);
}

}  // namespace
}  // namespace penstock::decode
