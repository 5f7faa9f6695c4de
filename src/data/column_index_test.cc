#include "data/column_index.h"

#include "data/sample_names.h"
#include "data/shard_parser.h"
#include "data/test_support.h"

namespace penstock::data {
namespace {

struct File {
  std::string name;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// The rules of WebDataset, told once more: nothing when a field comes twice.
std::optional<Samples> model(const std::vector<File>& files) {
  Samples samples;
  for (const File& file : files) {
    if (is_metadata_name(file.name)) continue;
    const auto split = split_name(file.name);
    if (!split) continue;
    if (samples.empty() || samples.back().first != split->key) {
      samples.push_back({std::string(split->key), {}});
    }
    const std::string field = lower_case(split->extension);
    if (!samples.back().second.emplace(field, fmt::format("{}+{}", file.offset, file.size)).second)
      return std::nullopt;
  }
  return samples;
}

Samples samples_of(const ShardIndex& index) {
  Samples samples;
  for (uint32_t i = 0; i < index.samples(); ++i) {
    Fields fields;
    for (const Member& member : index.members(i))
      fields[index.fields()[member.field]] =
          fmt::format("{}+{}", uint64_t{member.offset}, uint64_t{member.size});
    samples.emplace_back(index.key(i), fields);
  }
  return samples;
}

TEST(ColumnIndex, GroupsAsTheModelDoes) {
  std::mt19937_64 random(11);
  const std::vector<std::string> names = {"a", "b", "a/x", "__m__", "a.b/c", ".h"};
  const std::vector<std::string> extensions = {".jpg", ".JPG", ".cls", ".seg.png", "", "."};
  int repeated = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<File> files;
    for (uint64_t left = random() % 8; left > 0; --left) {
      files.push_back({names[random() % names.size()] + extensions[random() % extensions.size()],
                       random() % 1000, random() % 1000});
    }
    IndexBuilder builder;
    Result<void> added;
    for (const File& file : files) {
      if (added.ok()) added = builder.add_named(file.name, file.offset, file.size);
    }
    const auto expected = model(files);
    ASSERT_EQ(added.ok(), expected.has_value());
    if (!expected) {
      ASSERT_THAT(added, FailsWith(ErrorCode::kCorrupt));
      ++repeated;
      continue;
    }
    const auto index = ColumnIndex::parse(builder.finish(), 2000);
    ASSERT_THAT(index, IsOk());
    ASSERT_EQ(samples_of(**index), *expected);
  }
  EXPECT_GT(repeated, 100);
}

TEST(ColumnIndex, PathsKeepTheirCase) {
  IndexBuilder builder;
  ASSERT_THAT(builder.add_alone("x/IMG", "JPG", 5), IsOk());
  ASSERT_THAT(builder.add_alone("x/img", "jpg", 6), IsOk());
  const auto index = ColumnIndex::parse(builder.finish(), kShardBytesMax);
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ((*index)->fields(), std::vector<std::string>{"jpg"});
  EXPECT_EQ((*index)->path(0, 0), "x/IMG.JPG");
  EXPECT_EQ((*index)->path(1, 0), "x/img.jpg");
}

TEST(ColumnIndex, MembersOutsideOfTheShardAreRefused) {
  IndexBuilder builder;
  ASSERT_THAT(builder.add("k", "x", 100, 50), IsOk());
  const Block block = builder.finish();
  EXPECT_THAT(ColumnIndex::parse(block, 150), IsOk());
  EXPECT_THAT(ColumnIndex::parse(block, 149), FailsWith(ErrorCode::kCorrupt));
}

TEST(ColumnIndex, DamagedBlocksNeverHarm) {
  IndexBuilder builder;
  for (int i = 0; i < 6; ++i) {
    ASSERT_THAT(builder.add(std::to_string(i / 2), i % 2 == 0 ? "jpg" : "CLS", 100 * i, 50),
                IsOk());
  }
  const Block block = builder.finish();
  const auto use = [](Block damaged) {
    const auto index = ColumnIndex::parse(std::move(damaged), 1000);
    if (!index.ok()) return;
    for (uint32_t i = 0; i < (*index)->samples(); ++i) {
      for (size_t m = 0; m < (*index)->members(i).size(); ++m) (void)(*index)->path(i, m);
    }
  };
  for (size_t size = 0; size < block.size(); ++size) {
    Block cut = block;
    cut.resize(size);
    ASSERT_THAT(ColumnIndex::parse(cut, 1000), FailsWith(ErrorCode::kCorrupt));
  }
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    Block damaged = block;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    use(std::move(damaged));
  }
}

TEST(ColumnIndex, AnEmptyOneIsFine) {
  const auto index = ColumnIndex::parse(IndexBuilder().finish(), 0);
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ((*index)->samples(), 0);
}

TEST(ColumnIndex, TheLastExtensionsAreNotMixedUp) {
  IndexBuilder builder;
  for (size_t i = 0; i + 1 < IndexBuilder::kFieldsMax; ++i) {
    ASSERT_THAT(builder.add("k", std::to_string(i), 0, 0), IsOk());
  }
  ASSERT_THAT(builder.add("k", "LAST", 0, 0), IsOk());
  const auto index = ColumnIndex::parse(builder.finish(), 0);
  ASSERT_THAT(index, IsOk());
  const size_t last = (*index)->members(0).size() - 1;
  EXPECT_EQ((*index)->path(0, last), "k.LAST");
  EXPECT_EQ((*index)->fields()[(*index)->members(0)[last].field], "last");
  EXPECT_EQ((*index)->path(0, 0), "k.0");
}

TEST(ColumnIndex, TooManyExtensionsAreRefused) {
  IndexBuilder builder;
  Result<void> added;
  for (size_t i = 0; added.ok() && i <= IndexBuilder::kFieldsMax; ++i) {
    added = builder.add("k", std::to_string(i), 0, 0);
    if (i < IndexBuilder::kFieldsMax) {
      ASSERT_THAT(added, IsOk()) << i;
    }
  }
  EXPECT_THAT(added, FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(ColumnIndex::parse(builder.finish(), 0), IsOk());
}

}  // namespace
}  // namespace penstock::data
