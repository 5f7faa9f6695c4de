#include "decode/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace penstock::decode {
namespace {

std::vector<uint8_t> noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

class KernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (avx2_kernels() == nullptr) GTEST_SKIP() << "this CPU has no AVX2";
  }
  const Kernels& plain_ = plain_kernels();
  const Kernels* fast_ = avx2_kernels();
};

TEST_F(KernelsTest, NarrowRows) {
  std::mt19937 random(1);
  for (int n = 0; n < 200; ++n) {
    const auto size = static_cast<uint32_t>(1 + random() % 2000);
    const auto outputs = static_cast<uint32_t>(1 + random() % 300);
    AxisWeights weights;
    weights.plan({.size = size, .step = double{1} * size / outputs}, outputs, n % 2 == 0);
    PackedWeights packed;
    packed.pack(weights, weights.first());
    const size_t row_bytes = size_t{size} * 3 + weights.stride() * 3 + kRowSlackBytes;
    std::vector<uint8_t> in[2] = {noise(row_bytes, 2), noise(row_bytes, 3)};
    if (n % 5 == 0) std::ranges::fill(in[0], uint8_t{255});
    const uint8_t* const rows[2] = {in[0].data(), in[1].data()};
    std::vector<uint8_t> a[2], b[2];
    for (auto* out : {a, b}) out[0].resize(outputs * 3 + kRowSlackBytes);
    for (auto* out : {a, b}) out[1].resize(outputs * 3 + kRowSlackBytes);
    uint8_t* const to_a[2] = {a[0].data(), a[1].data()};
    uint8_t* const to_b[2] = {b[0].data(), b[1].data()};
    plain_.shrink_rows_rgb(rows, packed, to_a);
    fast_->shrink_rows_rgb(rows, packed, to_b);
    for (int i = 0; i < 2; ++i) {
      a[i].resize(outputs * 3);
      b[i].resize(outputs * 3);
      ASSERT_EQ(a[i], b[i]) << size << " to " << outputs;
    }
  }
}

TEST_F(KernelsTest, BlendRows) {
  std::mt19937 random(1);
  for (size_t size = 1; size < 200; ++size) {
    AxisWeights weights;
    weights.plan({.size = 40, .step = double(1 + random() % 19)}, 2, false);
    std::vector<std::vector<uint8_t>> in;
    std::vector<const uint8_t*> rows;
    for (unsigned i = 0; i < weights.count(0); ++i) {
      in.push_back(noise(size + kRowSlackBytes, i));
      rows.push_back(in.back().data());
    }
    std::vector<uint8_t> a(size + kRowSlackBytes), b(size + kRowSlackBytes);
    plain_.blend_rows(rows.data(), weights.weights(0), weights.count(0), size, a.data());
    fast_->blend_rows(rows.data(), weights.weights(0), weights.count(0), size, b.data());
    a.resize(size);
    b.resize(size);
    ASSERT_EQ(a, b);
  }
}

TEST_F(KernelsTest, SplitAndConvert) {
  Affine affine;
  for (size_t i = 0; i < kPeriod; ++i) {
    affine.scale[i] = 0.017f + 0.001f * static_cast<float>(i % 3);
    affine.shift[i] = -2.1f + 0.1f * static_cast<float>(i % 3);
  }
  for (size_t size = 1; size < 300; ++size) {
    const std::vector<uint8_t> in = noise(size * 3 + kRowSlackBytes, static_cast<unsigned>(size));
    std::vector<uint8_t> a(3 * 400), b(3 * 400);
    uint8_t* const to_a[3] = {a.data(), a.data() + 400, a.data() + 800};
    uint8_t* const to_b[3] = {b.data(), b.data() + 400, b.data() + 800};
    plain_.split_rgb(in.data(), size, to_a);
    fast_->split_rgb(in.data(), size, to_b);
    for (int c = 0; c < 3; ++c) ASSERT_TRUE(std::equal(to_a[c], to_a[c] + size, to_b[c]));

    for (const float factor : {0.0f, 0.3f, 0.999f, 1.7f, 9.0f}) {
      std::vector<uint8_t> base = noise(400, 5);
      plain_.to_grey(to_a, size, to_a[0]);
      fast_->to_grey(to_b, size, to_b[0]);
      plain_.blend(77, factor, to_a[1], size);
      fast_->blend(77, factor, to_b[1], size);
      plain_.blend_each(base.data(), factor, to_a[2], size);
      fast_->blend_each(base.data(), factor, to_b[2], size);
      for (int c = 0; c < 3; ++c) ASSERT_TRUE(std::equal(to_a[c], to_a[c] + size, to_b[c]));
    }

    std::vector<float> fa(size + 1, 77), fb(size + 1, 77);
    plain_.to_float32(in.data(), size, affine, fa.data());
    fast_->to_float32(in.data(), size, affine, fb.data());
    ASSERT_EQ(fa, fb);
    std::vector<uint16_t> ha(size + 1, 77), hb(size + 1, 77);
    plain_.to_float16(in.data(), size, affine, ha.data());
    fast_->to_float16(in.data(), size, affine, hb.data());
    ASSERT_EQ(ha, hb);
    plain_.to_bfloat16(in.data(), size, affine, ha.data());
    fast_->to_bfloat16(in.data(), size, affine, hb.data());
    ASSERT_EQ(ha, hb);
  }
}

double half_value(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double fraction = half & 1023;
  const double size =
      exponent == 0 ? fraction * 0x1.0p-24 : (1024 + fraction) * std::ldexp(1.0, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

TEST(Half, EveryHalfIsItselfAndBetweenThemIsTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(half_value(half));
    ASSERT_EQ(float_to_half(value), half);
    ASSERT_EQ(float_to_half(-value), half | 0x8000);
    if (bits + 1 == 0x7c00) break;
    const auto next = static_cast<float>(half_value(static_cast<uint16_t>(bits + 1)));
    const float middle = (value + next) / 2;
    ASSERT_EQ(float_to_half(middle), (bits + 1) / 2 * 2) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e6f)), bits + 1);
  }
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-1e9f), 0xfc00);
}

TEST(Bfloat, RoundsToTheNearestAndToEven) {
  EXPECT_EQ(float_to_bfloat(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bfloat(-2.5f), 0xc020);
}

}  // namespace
}  // namespace penstock::decode
