#include "decode/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/result_matchers.h"
#include "decode/random.h"

namespace penstock::decode {
namespace {

// A change here changes what every seed of every user gives: do not.
TEST(Draws, AreTheSameForever) {
  const Draws draws(42);
  EXPECT_EQ(draws.bits(0), 0x989b3f130a063869u);
  EXPECT_EQ(draws.bits(1), 0x290db4bf2570ded7u);
  EXPECT_EQ(Draws(0).bits(16), 0x7d29825c75521255u);
}

TEST(Draws, AreUniform) {
  double sum = 0;
  std::array<int, 7> counts{};
  constexpr int kCount = 70000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = Draws(i).uniform(kPlaceFlip);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    ++counts[Draws(i).below(5, 7)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  for (const int count : counts) EXPECT_NEAR(count, kCount / 7, 400);
}

TEST(Placement, ExpAndLogAreThoseOfTheCLibrary) {
  for (double x = 0.001; x <= 1000; x *= 1.07) {
    EXPECT_NEAR(portable_log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
    EXPECT_NEAR(portable_exp(std::log(x)) / x, 1, 1e-12);
  }
}

TEST(Placement, WholeImageIsStretched) {
  const ImageSpec spec{.height = 50, .width = 100};
  const CropBox box = crop_box(spec, 640, 480, 9);
  EXPECT_EQ(box.left, 0);
  EXPECT_EQ(box.top, 0);
  EXPECT_EQ(box.width, 640);
  EXPECT_EQ(box.height, 480);
  EXPECT_FALSE(box.flip);
}

// Resize(256) makes 341 x 256 of 500 x 375; CenterCrop(224) begins at 58.5 -> 58 and 16.
TEST(Placement, MiddleIsWhereTorchvisionCutsIt) {
  const ImageSpec spec{.crop = Crop::kCenter, .resize = 256};
  const CropBox box = crop_box(spec, 500, 375, 9);
  EXPECT_DOUBLE_EQ(box.left, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(box.top, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(box.width, 224 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(box.height, 224 * 375.0 / 256);
  const CropBox upright = crop_box(spec, 375, 500, 9);
  EXPECT_DOUBLE_EQ(upright.top, box.left);
  EXPECT_DOUBLE_EQ(upright.left, box.top);
}

TEST(Placement, MiddleFitsWithoutResize) {
  const ImageSpec spec{.height = 100, .width = 200, .crop = Crop::kCenter};
  const CropBox box = crop_box(spec, 1000, 400, 9);  // Resized to 500 x 200.
  EXPECT_DOUBLE_EQ(box.left, 300);
  EXPECT_DOUBLE_EQ(box.width, 400);
  EXPECT_DOUBLE_EQ(box.top, 100);
  EXPECT_DOUBLE_EQ(box.height, 200);
}

TEST(Placement, RandomPartsAreInsideAndAsLargeAsAsked) {
  const ImageSpec spec{.crop = Crop::kRandom, .flip = 0.5};
  constexpr uint32_t kWidth = 500, kHeight = 400;
  double area_sum = 0, log_sum = 0;
  int flips = 0;
  std::set<double> lefts;
  constexpr int kCount = 20000;
  for (uint64_t random = 0; random < kCount; ++random) {
    const CropBox box = crop_box(spec, kWidth, kHeight, random);
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.top, 0);
    ASSERT_LE(box.left + box.width, kWidth + 1e-9);
    ASSERT_LE(box.top + box.height, kHeight + 1e-9);
    const double area = box.width * box.height / (kWidth * kHeight);
    ASSERT_GT(area, 0.079);
    const double aspect = box.width / box.height;
    ASSERT_GT(aspect, 0.74);
    ASSERT_LT(aspect, 1.35);
    area_sum += area;
    log_sum += std::log(aspect);
    flips += box.flip ? 1 : 0;
    lefts.insert(box.left);
  }
  // The mean of 0.08 to 1 would be 0.54; the largest do not fit at every aspect.
  EXPECT_NEAR(area_sum / kCount, 0.453, 0.005);
  EXPECT_NEAR(log_sum / kCount, 0.02, 0.03);
  EXPECT_NEAR(flips, kCount / 2, 300);
  EXPECT_GT(lefts.size(), 200u);
}

TEST(Placement, WhatDoesNotFitIsTheMiddle) {
  const ImageSpec spec{.crop = Crop::kRandom, .scale = {0.9, 1}};
  const CropBox wide = crop_box(spec, 1000, 100, 1);
  EXPECT_DOUBLE_EQ(wide.width, 133);
  EXPECT_DOUBLE_EQ(wide.left, 433);
  EXPECT_DOUBLE_EQ(wide.height, 100);
  const CropBox tall = crop_box(spec, 100, 1000, 1);
  EXPECT_DOUBLE_EQ(tall.height, 133);
  EXPECT_DOUBLE_EQ(tall.top, 433);
  const CropBox one = crop_box(spec, 1, 1, 1);
  EXPECT_DOUBLE_EQ(one.width, 1);
}

TEST(Placement, FlipDoesNotChangeTheCrop) {
  ImageSpec spec{.crop = Crop::kRandom};
  const CropBox plain = crop_box(spec, 500, 400, 77);
  spec.flip = 1;
  const CropBox flipped = crop_box(spec, 500, 400, 77);
  EXPECT_EQ(plain.left, flipped.left);
  EXPECT_EQ(plain.height, flipped.height);
  EXPECT_TRUE(flipped.flip);
}

TEST(ImageSpec, SaysWhatIsWrong) {
  EXPECT_THAT(ImageSpec{}.check(), IsOk());
  const auto bad = FailsWith(ErrorCode::kInvalid);
  EXPECT_THAT((ImageSpec{.height = 0}.check()), bad);
  EXPECT_THAT((ImageSpec{.width = 100000}.check()), bad);
  EXPECT_THAT((ImageSpec{.crop = Crop::kCenter, .resize = 100}.check()), bad);
  EXPECT_THAT((ImageSpec{.crop = Crop::kRandom, .scale = {0, 1}}.check()), bad);
  EXPECT_THAT((ImageSpec{.crop = Crop::kRandom, .scale = {0.5, 0.1}}.check()), bad);
  EXPECT_THAT((ImageSpec{.crop = Crop::kRandom, .ratio = {0, 1}}.check()), bad);
  EXPECT_THAT((ImageSpec{.crop = Crop::kRandom, .ratio = {1, std::nan("")}}.check()), bad);
  EXPECT_THAT((ImageSpec{.flip = 1.5}.check()), bad);
  EXPECT_THAT((ImageSpec{.contrast = -1}.check()), bad);
  EXPECT_THAT((ImageSpec{.mean = {{0, 0, 0}}}.check()), bad);
  EXPECT_THAT((ImageSpec{.std = {{1, 0, 1}}, .dtype = DType::kFloat32}.check()), bad);
  EXPECT_THAT((ImageSpec{.dtype = DType::kInt64}.check()), bad);
  EXPECT_THAT((ImageSpec{.channels = 4}.check()), bad);
}

}  // namespace
}  // namespace penstock::decode
