#include "data/sidecar.h"

#include "data/test_support.h"

namespace penstock::data {
namespace {

TEST(Sidecar, Wds2Idx) {
  const std::string text = "v1.2 2\njpg 512 100 a.jpg cls 1536 1 a.cls\njpg 2560 7 b.jpg\n";
  const auto members = parse_wds2idx(text, 3000);
  ASSERT_THAT(members, IsOk());
  ASSERT_EQ(members->size(), 3);
  EXPECT_EQ((*members)[1].name, "a.cls");
  EXPECT_EQ((*members)[2].offset, 2560);
  EXPECT_THAT(parse_wds2idx(text, 2566), FailsWith(ErrorCode::kCorrupt));
  for (const char* wrong :
       {"", "v1.2", "v1.1 1\njpg 512 100\n", "v1.2 2\njpg 512 1 a.jpg\n", "v1.2 1\njpg 512 1\n",
        "v1.2 1\njpg 500 1 a.jpg\n", "v1.2 1\njpg 512 -1 a.jpg\n", "v1.2 1\npng 512 1 a.jpg\n",
        "v1.2 1\njpg 512 1 a b.jpg\n", "v1.2 2\njpg 1024 1 a.jpg\njpg 512 1 b.jpg\n",
        "v1.2 1\njpg 99999999999999999999 1 a.jpg\n"}) {
    EXPECT_THAT(parse_wds2idx(wrong, 3000), FailsWith(ErrorCode::kCorrupt)) << wrong;
  }
}

TEST(Sidecar, TfRecord2Idx) {
  EXPECT_THAT(parse_tfrecord2idx("0 20\n20 16\n", 36), IsOk());
  EXPECT_THAT(parse_tfrecord2idx("0 20\n20 16", 36), IsOk());
  EXPECT_THAT(parse_tfrecord2idx("", 0), IsOk());
  for (const char* wrong : {"0 20\n", "0 20\n20 17\n", "0 20\n21 15\n", "0 36 1\n", "a 36\n",
                            "0 15\n15 21\n", "0 18446744073709551615\n"}) {
    EXPECT_THAT(parse_tfrecord2idx(wrong, 36), FailsWith(ErrorCode::kCorrupt)) << wrong;
  }
}

TEST(Sidecar, Wids) {
  const auto shards = parse_wids(
      R"({"__kind__":"wids-shard-index-v1","wids_version":1,
          "shardlist":[{"url":"a.tar","nsamples":3},{"url":"s3://b/c.tar","nsamples":4,"x":1}]})");
  ASSERT_THAT(shards, IsOk());
  ASSERT_EQ(shards->size(), 2);
  EXPECT_EQ((*shards)[1].url, "s3://b/c.tar");
  for (const char* wrong : {"", "[]", "{}", R"({"__kind__":1,"shardlist":[]})",
                            R"({"__kind__":"wids-shard-index-v1","shardlist":{}})",
                            R"({"__kind__":"wids-shard-index-v1","shardlist":[{"url":1}]})",
                            R"({"__kind__":"wids-shard-index-v1","shardlist":[{"url":"a"}]})"}) {
    EXPECT_THAT(parse_wids(wrong), FailsWith(ErrorCode::kCorrupt)) << wrong;
  }
}

// Whether it was used shows in the bytes that were read: the middle of the shard is then not.
class SidecarUseTest : public ::testing::Test {
 protected:
  SidecarUseTest() {
    options_.file_system = &fs_;
    options_.index_dir = "/index";
  }

  // What wds2idx writes about a tar in ustar style, with `wrong` added to the size of the middle one.
  static std::string wds2idx(const Samples& samples, uint64_t wrong) {
    std::string text = fmt::format("v1.2 {}\n", samples.size());
    uint64_t at = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      std::string line;
      for (const auto& [field, data] : samples[i].second) {
        at += 512;
        const uint64_t size = data.size() + (i == samples.size() / 2 ? wrong : 0);
        line += fmt::format("{}{} {} {} {}.{}", line.empty() ? "" : " ", field, at, size,
                            samples[i].first, field);
        at += (data.size() + 511) / 512 * 512;
      }
      text += line + "\n";
    }
    return text;
  }

  // Opens /data with a header in the middle of the tar damaged: fails unless the sidecar is used.
  bool uses(const std::string& sidecar) {
    const Samples samples = make_samples(401, 1);
    std::string tar = tar_of(samples);
    const std::string name = samples[190].first + ".cls";
    tar[tar.find(name) + name.size() + 1] = 'x';
    write_file(fs_, "/data/x.tar", tar);
    write_file(fs_, "/data/x.idx", sidecar);
    (void)fs_.remove("/data/.penstock-index");
    return Dataset::open({"/data"}, options_).ok();
  }

  io::MemoryFileSystem fs_;
  OpenOptions options_;
};

TEST_F(SidecarUseTest, IsUsedWhereItIsRight) {
  const Samples samples = make_samples(401, 1);
  EXPECT_TRUE(uses(wds2idx(samples, 0)));
  EXPECT_FALSE(uses(wds2idx(make_samples(401, 2), 0)));
  EXPECT_FALSE(uses(wds2idx(make_samples(400, 1), 0)));  // One is missing at the end.
  EXPECT_FALSE(uses("v1.2 0\n"));
  EXPECT_FALSE(uses("\x80\x04pickle"));
}

TEST_F(SidecarUseTest, GivesTheSameSamples) {
  const Samples samples = make_samples(101, 1);
  write_file(fs_, "/data/x.tar", tar_of(samples));
  write_file(fs_, "/data/x.idx", wds2idx(samples, 0));
  const auto dataset = Dataset::open({"/data"}, options_);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ(read_all(**dataset), samples);
}

TEST_F(SidecarUseTest, AnOlderOneIsNotUsed) {
  const Samples samples = make_samples(101, 1);
  write_file(fs_, "/data/x.idx", wds2idx(samples, 0));
  std::string tar = tar_of(samples);
  const std::string name = samples[50].first + ".cls";
  tar[tar.find(name) + name.size() + 1] = 'x';
  write_file(fs_, "/data/x.tar", tar);
  EXPECT_FALSE(Dataset::open({"/data"}, options_).ok());
}

TEST_F(SidecarUseTest, AWidsListStandsForItsShards) {
  const Samples samples = make_samples(5, 1);
  write_file(fs_, "/data/x.tar", tar_of(samples));
  write_file(fs_, "/data/y.tar", tar_of(make_samples(5, 2)));
  write_file(fs_, "/data/list.json",
             R"({"__kind__":"wids-shard-index-v1","shardlist":[{"url":"x.tar","nsamples":5}]})");
  const auto dataset = Dataset::open({"/data/list.json"}, options_);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ(read_all(**dataset), samples);
}

}  // namespace
}  // namespace penstock::data
