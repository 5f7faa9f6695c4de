#include "data/index_file.h"

#include "data/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::data {
namespace {

constexpr const char* kPath = "/data/.penstock-index";

bool keep_all(const IndexEntry&) {
  return true;
}

NewIndex make_index(const std::string& name, uint32_t samples, const std::string& version = "1") {
  IndexBuilder builder;
  for (uint32_t i = 0; i < samples; ++i)
    EXPECT_THAT(builder.add(name + std::to_string(i), "jpg", i * 1000, 10), IsOk());
  auto index = ColumnIndex::parse(builder.finish(), 1'000'000);
  return {{.name = name, .version = version, .size = 1'000'000, .samples = samples}, *index};
}

class IndexFileTest : public ::testing::Test {
 protected:
  IndexFileTest() {
    EXPECT_THAT(fs_.make_directory("/data"), IsOk());
    EXPECT_THAT(fs_.sync_directory("/"), IsOk());
  }
  Result<IndexTable> write(const std::vector<NewIndex>& added) {
    return write_index_file(fs_, kPath, "", added, keep_all);
  }
  std::string contents() { return *io::read_file(fs_, kPath, kGiB); }

  io::MemoryFileSystem fs_;
};

TEST_F(IndexFileTest, IsReadBack) {
  const std::vector<NewIndex> added = {make_index("b", 5), make_index("a", 0), make_index("c", 70)};
  ASSERT_THAT(write(added), IsOk());
  const auto table = read_index_table(fs_, kPath);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->entries.size(), 3);
  EXPECT_EQ(table->find("d"), nullptr);
  for (const NewIndex& one : added) {
    const IndexEntry* const entry = table->find(one.entry.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(entry->same_shard(one.entry));
    const auto index = read_index(fs_, kPath, *entry);
    ASSERT_THAT(index, IsOk());
    EXPECT_EQ((*index)->block(), one.index->block());
  }
}

// The example of docs/formats/index.md: what is written today is read by every later version.
TEST_F(IndexFileTest, TheFormatStaysAsItIs) {
  IndexBuilder builder;
  ASSERT_THAT(builder.add_named("cat.jpg", 512, 5), IsOk());
  ASSERT_THAT(builder.add_named("cat.CLS", 1536, 1), IsOk());
  const auto index = ColumnIndex::parse(builder.finish(), 10240);
  ASSERT_THAT(index, IsOk());
  const IndexEntry entry{
      .name = "a.tar", .version = "17979cfe362a0000", .size = 10240, .samples = 1};
  ASSERT_THAT(write({{entry, *index}}), IsOk());
  std::string hex;
  for (const char c : contents()) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  EXPECT_EQ(hex,
            "70656e2d646174610100000000000000"
            "00000000010000000000000000000000"
            "4500000000000000504f4983c44d3cf6"
            "05001000010000000028000000000000"
            "01000000000000007800000000000000"
            "5c00000000000000bf8a7ca5e87c2902"
            "612e7461723137393739636665333632"
            "61303030300000000100000002000000"
            "02000000030000000300000019000000"
            "00020000000000000500000000000000"
            "00060000000001000100000000000200"
            "020000000300000063617403006a7067"
            "0300636c7303006a70670300636c7303"
            "00434c53");
}

TEST_F(IndexFileTest, KeepsWhatOthersWrote) {
  ASSERT_THAT(write({make_index("a", 3), make_index("b", 4)}), IsOk());
  ASSERT_THAT(write({make_index("b", 5, "2"), make_index("c", 6)}), IsOk());
  const auto table = read_index_table(fs_, kPath);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->entries.size(), 3);
  for (const auto& [name, samples] : {std::pair("a", 3U), std::pair("b", 5U), std::pair("c", 6U)}) {
    const auto index = read_index(fs_, kPath, *table->find(name));
    ASSERT_THAT(index, IsOk()) << name;
    EXPECT_EQ((*index)->samples(), samples);
  }
  const auto fewer = write_index_file(fs_, kPath, "", {},
                                      [](const IndexEntry& entry) { return entry.name == "c"; });
  ASSERT_THAT(fewer, IsOk());
  EXPECT_EQ(fewer->entries.size(), 1);
}

TEST_F(IndexFileTest, DamageIsNeverBelieved) {
  const NewIndex a = make_index("a", 3);
  const NewIndex b = make_index("b", 2);
  ASSERT_THAT(write({a, b}), IsOk());
  const std::string whole = contents();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    write_file(fs_, kPath, damaged);
    const auto table = read_index_table(fs_, kPath);
    if (!table.ok()) continue;
    for (const NewIndex* one : {&a, &b}) {
      const auto index = read_index(fs_, kPath, *table->find(one->entry.name));
      if (index.ok()) {
        ASSERT_EQ((*index)->block(), one->index->block()) << at;
      }
    }
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(fs_, kPath, whole.substr(0, size));
    const auto table = read_index_table(fs_, kPath);
    if (table.ok()) {
      ASSERT_FALSE(read_index(fs_, kPath, *table->find("b")).ok());
    }
  }
}

TEST_F(IndexFileTest, ANewerVersionIsLeftAlone) {
  ASSERT_THAT(write({make_index("a", 3)}), IsOk());
  std::string newer = contents();
  newer[8] = 2;
  write_file(fs_, kPath, newer);
  EXPECT_THAT(read_index_table(fs_, kPath), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(write({make_index("b", 3)}), FailsWith(ErrorCode::kUnsupported));
  EXPECT_EQ(contents(), newer);
}

TEST_F(IndexFileTest, EveryPowerCutLeavesTheOldOrTheNew) {
  ASSERT_THAT(write({make_index("a", 3)}), IsOk());
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem faulty({.cut_at = n}, fs_.clone());
    const bool saved =
        write_index_file(faulty, kPath, "", std::vector{make_index("b", 4)}, keep_all).ok();
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const auto after = faulty.power_cut(seed);
      const auto table = read_index_table(*after, kPath);
      ASSERT_THAT(table, IsOk()) << n;
      ASSERT_EQ(table->entries.size() == 2, table->find("b") != nullptr);
      if (saved) {
        ASSERT_EQ(table->entries.size(), 2);
      }
      for (const IndexEntry& entry : table->entries)
        ASSERT_THAT(read_index(*after, kPath, entry), IsOk());
    }
    if (!faulty.fault_hit()) break;
  }
}

}  // namespace
}  // namespace penstock::data
