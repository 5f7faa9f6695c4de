// What goes wrong around a dataset while it is opened: it works all the same, or says so.
#include "data/index_places.h"
#include "data/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::data {
namespace {

constexpr const char* kIndex = "/data/.penstock-index";

class DatasetFaultsTest : public ::testing::Test {
 protected:
  DatasetFaultsTest() {
    for (size_t i = 0; i < 3; ++i) {
      const Samples samples = make_samples(6, i + 1);
      write_file(fs_, fmt::format("/data/{}.tar", i), tar_of(samples));
      expected_.insert(expected_.end(), samples.begin(), samples.end());
    }
  }
  static Result<std::unique_ptr<Dataset>> open(io::FileSystem& fs) {
    OpenOptions options;
    options.file_system = &fs;
    options.index_dir = "/index";
    options.threads = 1;
    return Dataset::open({"/data"}, options);
  }
  void expect_right(io::FileSystem& fs) {
    const auto dataset = open(fs);
    ASSERT_THAT(dataset, IsOk());
    ASSERT_EQ(read_all(**dataset), expected_);
  }

  io::MemoryFileSystem fs_;
  Samples expected_;
};

TEST_F(DatasetFaultsTest, EveryFailingCallLeavesAUsableDatasetOrAnError) {
  for (const int error : {EIO, ENOSPC, EROFS, EACCES}) {
    for (uint64_t n = 1;; ++n) {
      io::FaultyFileSystem faulty({.fail_at = n, .error = error}, fs_.clone());
      {
        const auto dataset = open(faulty);
        if (dataset.ok() && faulty.fault_hit()) {
          ASSERT_EQ(read_all(**dataset), expected_) << n;
        }
      }
      expect_right(faulty.disk());
      if (!faulty.fault_hit()) break;
      ASSERT_LT(n, 2000);
    }
  }
}

TEST_F(DatasetFaultsTest, EveryFailingCallOverAnIndexLeavesAUsableDatasetOrAnError) {
  expect_right(fs_);
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem faulty({.fail_at = n}, fs_.clone());
    {
      const auto dataset = open(faulty);
      if (dataset.ok() && faulty.fault_hit()) {
        ASSERT_EQ(read_all(**dataset), expected_) << n;
      }
    }
    expect_right(faulty.disk());
    if (!faulty.fault_hit()) break;
    ASSERT_LT(n, 2000);
  }
}

TEST_F(DatasetFaultsTest, EveryFailingCallBelowAStoreLeavesAUsableDatasetOrAnError) {
  {
    ASSERT_THAT(fs_.make_directory("/objects"), IsOk());
    auto store = store::open_store("file:/objects", {.file_system = &fs_});
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->put("a.tar", bytes_of(tar_of(expected_))), IsOk());
    ASSERT_THAT((*store)->flush(), IsOk());
  }
  OpenOptions options;
  options.index_dir = "/index";
  options.threads = 1;
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem faulty({.fail_at = n}, fs_.clone());
    options.file_system = &faulty;
    const auto dataset = Dataset::open({"file:/objects"}, options);
    if (dataset.ok()) {
      for (uint64_t i = 0; i < expected_.size(); ++i) {
        const auto place = (*dataset)->place(i);
        ASSERT_TRUE(place.ok() || faulty.fault_hit());
        if (place.ok()) {
          ASSERT_EQ(place->index->key(place->sample), expected_[i].first);
        }
      }
    }
    if (!faulty.fault_hit()) break;
    ASSERT_LT(n, 2000);
  }
}

TEST_F(DatasetFaultsTest, AFolderThatCannotBeReadIsNamed) {
  write_file(fs_, "/data/below/x.tar", tar_of(make_samples(1, 1)));
  for (const uint64_t n : {1, 2}) {
    io::FaultyFileSystem faulty({.fail_at = n, .only = io::CallKind::kList, .error = EACCES},
                                fs_.clone());
    const auto dataset = open(faulty);
    ASSERT_THAT(dataset, FailsWith(ErrorCode::kPermission));
    EXPECT_NE(dataset.error().detail.find(n == 1 ? "/data" : "/data/below"), std::string::npos)
        << dataset.error().detail;
  }
}

TEST_F(DatasetFaultsTest, NoPowerCutMakesAWrongIndex) {
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem faulty({.cut_at = n}, fs_.clone());
    (void)open(faulty);
    for (uint64_t seed = 0; seed < 4; ++seed) expect_right(*faulty.power_cut(seed));
    if (!faulty.fault_hit()) break;
    ASSERT_LT(n, 2000);
  }
}

TEST_F(DatasetFaultsTest, WithoutRoomForAnIndexItIsInMemory) {
  io::FaultyFileSystem faulty(
      {.fail_at = 1, .only = io::CallKind::kWrite, .error = ENOSPC, .for_good = true}, fs_.clone());
  const auto dataset = open(faulty);
  ASSERT_THAT(dataset, IsOk());
  EXPECT_EQ(read_all(**dataset), expected_);
  EXPECT_FALSE(is_there(faulty.disk(), kIndex));
  EXPECT_FALSE(is_there(faulty.disk(), std::string(kIndex) + ".tmp"));
}

TEST_F(DatasetFaultsTest, WhereTheDataIsReadOnlyTheIndexLiesElsewhere) {
  // The first lock tried is the one beside the data.
  io::FaultyFileSystem faulty({.fail_at = 1, .only = io::CallKind::kLock, .error = EROFS},
                              fs_.clone());
  ASSERT_THAT(open(faulty), IsOk());
  EXPECT_FALSE(is_there(faulty.disk(), kIndex));
  EXPECT_TRUE(is_there(faulty.disk(), "/index"));
  expect_right(faulty.disk());
}

TEST_F(DatasetFaultsTest, ADamagedBlockIsMadeAgain) {
  expect_right(fs_);
  const std::string whole = *io::read_file(fs_, kIndex, kGiB);
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const auto fs = fs_.clone();
    write_file(*fs, kIndex, damaged);
    expect_right(*fs);
  }
}

TEST_F(DatasetFaultsTest, AnIndexThatGoesAwayIsMadeAgain) {
  const auto dataset = open(fs_);
  ASSERT_THAT(dataset, IsOk());
  ASSERT_THAT(fs_.remove(kIndex), IsOk());
  EXPECT_EQ(read_all(**dataset), expected_);
}

TEST_F(DatasetFaultsTest, AnIndexThatIsReplacedMeanwhileIsFine) {
  const auto dataset = open(fs_);
  ASSERT_THAT(dataset, IsOk());
  write_file(fs_, "/data/00.tar", tar_of(make_samples(50, 9)));  // Blocks move.
  ASSERT_THAT(open(fs_), IsOk());
  EXPECT_EQ(read_all(**dataset), expected_);
}

TEST_F(DatasetFaultsTest, AnIndexOfANewerVersionIsNotReplaced) {
  expect_right(fs_);
  std::string newer = *io::read_file(fs_, kIndex, kGiB);
  newer[8] = 9;
  write_file(fs_, kIndex, newer);
  expect_right(fs_);
  expect_right(fs_);
  EXPECT_EQ(*io::read_file(fs_, kIndex, kGiB), newer);
  EXPECT_TRUE(is_there(fs_, "/index"));
}

TEST_F(DatasetFaultsTest, AShardThatFailsDoesNotLoseTheOthers) {
  write_file(fs_, "/data/9.tar",
             "not a tar, but long enough to be looked at" + std::string(600, 'x'));
  ASSERT_THAT(open(fs_), FailsWith(ErrorCode::kCorrupt));
  const auto table = is_there(fs_, kIndex);
  EXPECT_TRUE(table);
  ASSERT_THAT(fs_.remove("/data/9.tar"), IsOk());
  expect_right(fs_);
}

}  // namespace
}  // namespace penstock::data
