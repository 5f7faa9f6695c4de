#include "data/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/result_matchers.h"

namespace penstock::data {

namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    std::string pattern = testing::TempDir() + "mapped.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    for (size_t i = 0; i < kBytes; ++i) content_ += static_cast<char>(i * 31 + i / 256);
    std::ofstream(path()) << content_;
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/file"; }

  static constexpr size_t kBytes = 300'001;  // Several chunks, the last one cut off.
  std::string folder_;
  std::string content_;
};

TEST_F(MappedFileTest, ShowsWhatTheFileHolds) {
  auto file = MappedFile::open(path(), kBytes);
  if (!file.ok() && file.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "an old Linux";
  ASSERT_THAT(file, IsOk());
  for (const auto& [offset, size] : {std::pair<size_t, size_t>{0, 1},
                                     {0, kBytes},
                                     {65'535, 2},
                                     {65'536, 65'536},
                                     {kBytes - 1, 1},
                                     {100, 0}}) {
    const auto view = (*file)->view(offset, size);
    ASSERT_THAT(view, IsOk());
    const std::string_view seen(reinterpret_cast<const char*>(view->data()), view->size());
    EXPECT_EQ(seen, std::string_view(content_).substr(offset, size)) << offset;
  }
}

TEST_F(MappedFileTest, AFileThatBecameShorterIsAnErrorNotACrash) {
  auto file = MappedFile::open(path(), kBytes);
  if (!file.ok() && file.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "an old Linux";
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->view(0, 10), IsOk());
  std::filesystem::resize_file(path(), 100);
  // The pages of the end are gone: whether its length is looked at or they are asked for, it is told.
  EXPECT_FALSE((*file)->view(kBytes - 10, 10).ok());
  bool told = false;
  for (int i = 0; i < 16; ++i) told |= !(*file)->view(0, 10).ok();
  EXPECT_TRUE(told);
}

TEST_F(MappedFileTest, AnotherLengthThanExpectedIsRefused) {
  const auto file = MappedFile::open(path(), kBytes - 1);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kChanged);
  EXPECT_EQ(MappedFile::open(path() + "x", 1).error().code, ErrorCode::kNotFound);
}

}  // namespace

}  // namespace penstock::data
