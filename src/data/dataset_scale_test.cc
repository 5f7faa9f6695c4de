// Large datasets, and the real file system.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "data/index_file.h"
#include "data/test_support.h"

namespace penstock::data {
namespace {

using Clock = std::chrono::steady_clock;

TEST(DatasetScale, AMillionSamplesOpenAtOnce) {
  io::MemoryFileSystem fs;
  ASSERT_THAT(fs.make_directory("/data"), IsOk());
  constexpr uint32_t kSamples = 10'000;
  constexpr uint64_t kBytes = 2'000'000'000;
  IndexBuilder builder;
  for (uint32_t i = 0; i < kSamples; ++i) {
    ASSERT_THAT(builder.add(fmt::format("{:08}", i), "jpg", 200'000ULL * i, 150'000), IsOk());
  }
  const auto index = ColumnIndex::parse(builder.finish(), kBytes);
  ASSERT_THAT(index, IsOk());
  std::vector<NewIndex> added;
  for (int i = 0; i < 100; ++i) {
    const std::string name = fmt::format("{:03}.tar", i);
    write_file(fs, "/data/" + name, "");
    auto file = fs.open("/data/" + name, {.access = io::Access::kWrite});
    ASSERT_THAT((*file)->truncate(kBytes), IsOk());
    const std::string version = fmt::format("{:x}", (*file)->stat()->mtime_ns);
    added.push_back(
        {{.name = name, .version = version, .size = kBytes, .samples = kSamples}, *index});
  }
  ASSERT_THAT(write_index_file(fs, "/data/.penstock-index", "", added,
                               [](const IndexEntry&) { return true; }),
              IsOk());
  OpenOptions options;
  options.file_system = &fs;
  const Clock::time_point begin = Clock::now();
  const auto dataset = Dataset::open({"/data"}, options);
  ASSERT_THAT(dataset, IsOk());
  ASSERT_EQ((*dataset)->samples(), 1'000'000);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  const auto place = (*dataset)->place(777'777);
  ASSERT_THAT(place, IsOk());
  EXPECT_EQ(place->shard, 77);
  EXPECT_EQ(place->index->key(place->sample), "00007777");
}

class LocalDatasetTest : public ::testing::TestWithParam<io::CacheMode> {
 protected:
  LocalDatasetTest() {
    std::string name = "data-test-XXXXXX";
    path_ = (std::filesystem::current_path() / ::mkdtemp(name.data())).string();
    fs_ = *io::process_file_system();
  }
  ~LocalDatasetTest() override { (void)io::remove_tree(*fs_, path_); }

  io::LocalFileSystem* fs_ = nullptr;
  std::string path_;
};

TEST_P(LocalDatasetTest, ReadsFromManyFilesAtOnce) {
  Samples expected;
  for (int i = 0; i < 5; ++i) {
    const Samples samples = make_samples(100, i + 1, 40'000);
    write_file(*fs_, fmt::format("{}/{}.tar", path_, i), tar_of(samples));
    expected.insert(expected.end(), samples.begin(), samples.end());
  }
  OpenOptions options;
  options.mode = GetParam();
  for (int round = 0; round < 2; ++round) {
    const auto opened = Dataset::open({path_}, options);
    ASSERT_THAT(opened, IsOk());
    Dataset& dataset = **opened;
    EXPECT_TRUE(dataset.local());
    EXPECT_EQ(read_all(dataset), expected);
    // And all at once, each into its own memory.
    struct Read {
      std::string data;
      std::string expected;
      std::promise<Result<void>> done;
    };
    std::deque<Read> reads;
    for (uint64_t i = 0; i < dataset.samples(); ++i) {
      const auto place = dataset.place(i);
      ASSERT_THAT(place, IsOk());
      for (const Member& member : place->members) {
        dataset.will_need(place->shard, member.offset, member.size);
        Read& read = reads.emplace_back();
        read.data.resize(member.size);
        read.expected = expected[i].second.at(place->index->fields()[member.field]);
        dataset.async_read(
            place->shard, member.offset, std::as_writable_bytes(std::span(read.data)),
            [&read](Result<void> answer) { read.done.set_value(std::move(answer)); });
      }
    }
    for (Read& read : reads) {
      ASSERT_THAT(read.done.get_future().get(), IsOk());
      ASSERT_EQ(read.data, read.expected);
    }
  }
  EXPECT_TRUE(is_there(*fs_, path_ + "/.penstock-index"));
  EXPECT_FALSE(is_there(*fs_, path_ + "/.penstock-index.lock"));
}

INSTANTIATE_TEST_SUITE_P(Modes, LocalDatasetTest,
                         ::testing::Values(io::CacheMode::kBuffered, io::CacheMode::kDirect,
                                           io::CacheMode::kUncached),
                         [](const auto& one) {
                           return std::string(io::cache_mode_name(one.param));
                         });

TEST_P(LocalDatasetTest, ALinkToAClassFolderIsRefused) {
  write_file(*fs_, path_ + "/data/cat/a.jpg", "1");
  write_file(*fs_, path_ + "/dog/b.jpg", "1");
  ASSERT_THAT(fs_->make_symlink(path_ + "/dog", path_ + "/data/dog"), IsOk());
  const auto dataset = Dataset::open({path_ + "/data"}, {});
  ASSERT_THAT(dataset, FailsWith(ErrorCode::kUnsupported));
  EXPECT_NE(dataset.error().detail.find("/data/dog"), std::string::npos);
}

TEST_P(LocalDatasetTest, LinksToFilesAreFollowedWhereverTheyLead) {
  const Samples first = make_samples(3, 1);
  const Samples second = make_samples(4, 2);
  // As a hub keeps a snapshot.
  write_file(*fs_, path_ + "/hub/blobs/1", tar_of(first));
  write_file(*fs_, path_ + "/hub/blobs/2", tar_of(second));
  const std::string snapshot = path_ + "/hub/snapshots/abc";
  ASSERT_THAT(io::make_directories(*fs_, snapshot + "/data"), IsOk());
  ASSERT_THAT(fs_->make_symlink("../../../blobs/2", snapshot + "/data/b.tar"), IsOk());
  ASSERT_THAT(fs_->make_symlink("../../../blobs/1", snapshot + "/data/a.tar"), IsOk());
  OpenOptions options;
  options.mode = GetParam();
  Samples both = first;
  both.insert(both.end(), second.begin(), second.end());
  for (const std::string& address :
       {snapshot, snapshot + "/data/*.tar", snapshot + "/data/{a,b}.tar"}) {
    const auto dataset = Dataset::open({address}, options);
    ASSERT_THAT(dataset, IsOk());
    EXPECT_EQ(read_all(**dataset), both) << address;
    EXPECT_EQ((*dataset)->shards()[0].name, snapshot + "/data/a.tar");
  }
  const auto given = Dataset::open({snapshot + "/data/b.tar", snapshot + "/data/a.tar"}, options);
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ((*given)->shards()[0].samples, 4U) << "in the order given";
}

TEST_P(LocalDatasetTest, LinksThatAreNoFilesAreNotMissedSilently) {
  const Samples samples = make_samples(3, 1);
  write_file(*fs_, path_ + "/data/a.tar", tar_of(samples));
  write_file(*fs_, path_ + "/data/below/b.tar", tar_of(samples));
  write_file(*fs_, path_ + "/blobs/1", tar_of(samples));
  OpenOptions options;
  options.mode = GetParam();
  const auto open = [&](const std::string& address) {
    return Dataset::open({path_ + address}, options);
  };
  // Within, they are fine.
  ASSERT_THAT(fs_->make_symlink("a.tar", path_ + "/data/same.tar"), IsOk());
  ASSERT_THAT(fs_->make_symlink("below", path_ + "/data/latest"), IsOk());
  const auto inside = open("/data");
  ASSERT_THAT(inside, IsOk());
  EXPECT_EQ((*inside)->samples(), 9);

  ASSERT_THAT(fs_->make_symlink(path_ + "/blobs/2", path_ + "/data/below/gone.tar"), IsOk());
  EXPECT_THAT(open("/data"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(open("/data/below/*.tar"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(open("/data/below/gone.tar"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(open("/data/*.tar"), IsOk());  // That one is not meant.
  EXPECT_THAT(open("/data/below/b*.tar"), IsOk());
  ASSERT_THAT(fs_->remove(path_ + "/data/below/gone.tar"), IsOk());
  ASSERT_THAT(fs_->make_symlink(path_ + "/blobs", path_ + "/data/more"), IsOk());
  EXPECT_THAT(open("/data"), FailsWith(ErrorCode::kUnsupported));
}

TEST_P(LocalDatasetTest, LooseFilesAreReadInThatModeToo) {
  const std::string data = random_text(10'000, 1);
  write_file(*fs_, path_ + "/data/cat/a.jpg", data);
  OpenOptions options;
  options.mode = GetParam();
  const auto dataset = Dataset::open({path_ + "/data"}, options);
  ASSERT_THAT(dataset, IsOk());
  const auto probe =
      fs_->open(path_ + "/data/cat/a.jpg", {.mode = GetParam(), .require_mode = false});
  ASSERT_THAT(probe, IsOk());
  EXPECT_EQ((*dataset)->mode(), (*probe)->mode());
  EXPECT_EQ(read_all(**dataset), (Samples{{"a", {{"jpg", data}}}}));
  std::vector<std::byte> small(100);
  EXPECT_EQ(*(*dataset)->read_loose(*(*dataset)->place(0), 0, small), 10'000);
}

TEST_P(LocalDatasetTest, RelativePathsAreTheSameAsAbsoluteOnes) {
  write_file(*fs_, path_ + "/data/a.tar", tar_of(make_samples(3, 1)));
  OpenOptions options;
  options.mode = GetParam();
  const std::string relative = std::filesystem::relative(path_).string();
  for (const std::string& address :
       {relative + "/data", "./" + relative + "/data/", relative + "/data/*.tar",
        "tree:" + relative, path_ + "/data/a.tar"}) {
    const auto dataset = Dataset::open({address}, options);
    ASSERT_THAT(dataset, IsOk()) << address;
    EXPECT_EQ((*dataset)->shards()[0].name, path_ + "/data/a.tar");
  }
}

}  // namespace
}  // namespace penstock::data
