#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/result_matchers.h"
#include "io/memory_file_system.h"
#include "penstock/io.h"

namespace penstock::io {
namespace {

class FileMapTest : public testing::Test {
 protected:
  FileMapTest() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-map-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~FileMapTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<File> make_file(size_t bytes, const std::string& name = "file") {
    const std::string path = directory_ + "/" + name;
    auto file = (*process_file_system())
                    ->open(path, {.access = Access::kReadWrite, .create = Create::kMustNotExist});
    EXPECT_THAT(file, IsOk());
    const std::vector<std::byte> content(bytes, std::byte{7});
    EXPECT_THAT((*file)->write(0, content), IsOk());
    return std::move(*file);
  }

  static uint64_t sum(std::span<const std::byte> bytes) {
    uint64_t total = 0;
    for (const std::byte byte : bytes) total += std::to_integer<uint64_t>(byte);
    return total;
  }

  std::string directory_;
};

TEST_F(FileMapTest, ShowsTheFile) {
  const auto file = make_file(100'000);
  const auto map = file->map();
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ((*map)->bytes().size(), 100'000u);
  EXPECT_EQ(sum((*map)->bytes()), 700'000u);
  EXPECT_FALSE((*map)->lost());
}

TEST_F(FileMapTest, ExpectedAsAWhole) {
  const auto file = make_file(5'000'001);
  ASSERT_THAT(file->advise(Advice::kDontNeed, 0, 0), IsOk());
  ASSERT_THAT(file->advise(Advice::kFill, 3'000'000, 4096), IsOk());
  ASSERT_THAT(file->advise(Advice::kFill, 4'999'000, 4096), IsOk()) << "beyond the end";
  const auto map = file->map();
  ASSERT_THAT(map, IsOk());
  (*map)->expect_all();
  EXPECT_EQ(sum((*map)->bytes()), 7 * 5'000'001u);
  EXPECT_FALSE((*map)->lost());
}

TEST_F(FileMapTest, StaysWhenTheFileIsClosedAndRemoved) {
  auto file = make_file(100'000);
  const auto map = file->map();
  ASSERT_THAT(map, IsOk());
  file.reset();
  std::filesystem::remove_all(directory_);
  EXPECT_EQ(sum((*map)->bytes()), 700'000u);
  EXPECT_FALSE((*map)->lost());
}

// Without the handler this ends the process.
TEST_F(FileMapTest, TellsWhenTheFileBecameShorter) {
  const auto file = make_file(100'000);
  const auto other = make_file(100'000, "other");
  const auto map = file->map();
  const auto whole = other->map();
  ASSERT_THAT(map, IsOk());
  ASSERT_THAT(whole, IsOk());
  ASSERT_THAT(file->truncate(8192), IsOk());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(sum((*map)->bytes()), 7 * 8192u); });
  }
  threads.clear();
  EXPECT_TRUE((*map)->lost());
  EXPECT_EQ(sum((*whole)->bytes()), 700'000u);
  EXPECT_FALSE((*whole)->lost());
}

TEST_F(FileMapTest, PlacesAreUsedAgain) {
  const auto file = make_file(5000);
  for (int i = 0; i < 1000; ++i) {
    const auto map = file->map();
    ASSERT_THAT(map, IsOk());
    EXPECT_FALSE((*map)->lost());
  }
  std::vector<std::unique_ptr<FileMap>> maps;
  for (int i = 0; i < 4200; ++i) {
    auto map = file->map();
    if (map.ok()) maps.push_back(std::move(*map));
  }
  EXPECT_EQ(maps.size(), 4096u);
}

TEST_F(FileMapTest, OtherBusErrorsEndTheProcess) {
  const auto map = make_file(5000)->map();
  ASSERT_THAT(map, IsOk());
  EXPECT_DEATH(raise(SIGBUS), "");
}

TEST(FileMap, OfMemoryThereIsNone) {
  MemoryFileSystem fs;
  const auto file = fs.open("/x", {.access = Access::kReadWrite, .create = Create::kMustNotExist});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ((*file)->map().error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace penstock::io
