#include "data/open_files.h"

#include <future>
#include <latch>
#include <thread>

#include "data/test_support.h"

namespace penstock::data {
namespace {

class OpenFilesTest : public ::testing::Test {
 protected:
  OpenFilesTest() {
    for (int i = 0; i < 20; ++i) write_file(fs_, "/f" + std::to_string(i), std::to_string(i));
  }
  OpenFiles::Open opener() {
    return [this](uint32_t number) {
      ++opened_;
      return fs_.open("/f" + std::to_string(number), {});
    };
  }
  static std::string read(OpenFiles& files, uint32_t number) {
    const auto use = files.use(number);
    EXPECT_THAT(use, IsOk());
    std::string text(2, '\0');
    text.resize(*use->file().read(0, std::as_writable_bytes(std::span(text))));
    return text;
  }

  io::MemoryFileSystem fs_;
  std::atomic<int> opened_ = 0;
};

TEST_F(OpenFilesTest, KeepsThoseUsedLast) {
  OpenFiles files(3, opener());
  for (const uint32_t i : {0U, 1U, 2U, 0U, 1U, 2U}) EXPECT_EQ(read(files, i), std::to_string(i));
  EXPECT_EQ(opened_, 3);
  EXPECT_EQ(read(files, 0), "0");
  EXPECT_EQ(read(files, 3), "3");  // Closes 1.
  EXPECT_EQ(read(files, 0), "0");
  EXPECT_EQ(read(files, 2), "2");
  EXPECT_EQ(opened_, 4);
  EXPECT_EQ(read(files, 1), "1");
  EXPECT_EQ(opened_, 5);
}

TEST_F(OpenFilesTest, FilesInUseStayOpen) {
  OpenFiles files(2, opener());
  std::vector<OpenFiles::Use> uses;
  for (uint32_t i = 0; i < 10; ++i) {
    auto use = files.use(i);
    ASSERT_THAT(use, IsOk());
    uses.push_back(std::move(*use));
  }
  for (uint32_t i = 0; i < 10; ++i) {
    std::string text(1, '\0');
    ASSERT_THAT(uses[i].file().read(0, std::as_writable_bytes(std::span(text))), IsOk());
    EXPECT_EQ(text, std::to_string(i));
  }
}

TEST_F(OpenFilesTest, ErrorsAreNotKept) {
  OpenFiles files(2, opener());
  EXPECT_THAT(files.use(77), FailsWith(ErrorCode::kNotFound));
  write_file(fs_, "/f77", "x");
  EXPECT_THAT(files.use(77), IsOk());
}

TEST_F(OpenFilesTest, ManyThreads) {
  OpenFiles files(4, opener());
  std::latch begin(4);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      begin.arrive_and_wait();
      for (int i = 0; i < 2000; ++i) {
        const auto number = static_cast<uint32_t>(random() % 20);
        ASSERT_EQ(read(files, number), std::to_string(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A read that asks for the next one from its completion, over more files than may be open.
TEST_F(OpenFilesTest, ReadsFromCompletions) {
  OpenFiles files(2, opener());
  std::promise<int> finished;
  std::vector<char> into(2000);
  std::function<void(int)> next = [&](int i) {
    if (i == 2000) return finished.set_value(i);
    auto use = files.use(static_cast<uint32_t>(i % 20));
    ASSERT_THAT(use, IsOk());
    auto* const held = new OpenFiles::Use(std::move(*use));
    held->file().submit(
        io::IoRequest::read(0, std::as_writable_bytes(std::span(&into[static_cast<size_t>(i)], 1)),
                            [&next, held, i](Result<size_t> got) {
                              const std::unique_ptr<OpenFiles::Use> owned(held);
                              EXPECT_TRUE(got.ok());
                              next(i + 1);
                            }));
  };
  next(0);
  EXPECT_EQ(finished.get_future().get(), 2000);
}

}  // namespace
}  // namespace penstock::data
