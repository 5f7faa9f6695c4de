#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result_matchers.h"

namespace penstock::checkpoint {
namespace {

Manifest sample() {
  Manifest manifest{.step = 1000,
                    .saved_ns = 1'700'000'000'000'000'000,
                    .nonce = "0123456789abcdef",
                    .writer = "penstock",
                    .metadata = {{"user", "\u00e4\"\\"}},
                    .trees = {R"({"a": [1, "x"]})", ""},
                    .files = {}};
  ManifestFile file{.name = "data-00000.safetensors",
                    .bytes = 4096 + 24,
                    .data_start = 4096,
                    .header_hash = 77,
                    .rank = 1,
                    .sha256 = "",
                    .tensors = {}};
  file.tensors.push_back({"w", "F32", {2, 3}, 24, file.name, 4096, ~uint64_t{0}});
  file.tensors.push_back({"none", "F32", {0}, 0, file.name, 4096 + 24, 5});
  manifest.files.push_back(file);
  return manifest;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const Result<Manifest> read = parse_manifest(manifest_text(sample()));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(manifest_text(*read), manifest_text(sample()));
  EXPECT_EQ(read->trees, sample().trees);
  EXPECT_EQ(read->files[0].rank, 1u);
  EXPECT_EQ(read->files[0].tensors[0].rank, 1u);
  EXPECT_EQ(read->metadata, sample().metadata);
  EXPECT_EQ(read->files[0].tensors[0].hash, ~uint64_t{0});
  EXPECT_EQ(read->files[0].tensors[0].file, "data-00000.safetensors");
}

TEST(Manifest, NoFlippedBitAndNoCutPasses) {
  const std::string text = manifest_text(sample());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      ASSERT_FALSE(parse_manifest(flipped).ok()) << i << " " << bit;
    }
    ASSERT_FALSE(parse_manifest(text.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(parse_manifest(text + " ").ok());
}

TEST(Manifest, OfANewerVersionSaysSo) {
  std::string text = manifest_text(sample());
  text.replace(text.find(":1"), 2, ":2");
  EXPECT_EQ(parse_manifest(text).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace penstock::checkpoint
