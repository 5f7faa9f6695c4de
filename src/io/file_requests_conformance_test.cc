// What io.h promises about File::submit and its completions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "io/file_system_conformance.h"

namespace penstock::io {
namespace {

TEST_P(FileSystemConformance, CloseAndDestructionWaitForRequestsInFlight) {
  for (const bool by_destructor : {false, true}) {
    auto file = make("f", std::string(64 * 4096, 'a'));
    std::vector<std::string> texts(64, std::string(4096, '?'));
    std::atomic<size_t> completed = 0;
    std::vector<IoRequest> requests;
    for (size_t i = 0; i < texts.size(); ++i) {
      requests.push_back(
          IoRequest::read(i * 4096, bytes_of(texts[i]), [&completed](Result<size_t> count) {
            EXPECT_EQ(count.value_or(0), 4096u);
            ++completed;
          }));
    }
    file->submit(requests);
    if (by_destructor) {
      file.reset();
    } else {
      PENSTOCK_EXPECT_OK(file->close());
    }
    EXPECT_EQ(completed, texts.size());
  }
}

TEST_P(FileSystemConformance, EveryRequestCompletesOnceAndOnAnotherThread) {
  constexpr size_t kRequests = 3000;  // More than a ring or a pool takes at once.
  const auto file = make("f", std::string(kRequests, 'x'));
  std::vector<std::atomic<int>> calls(kRequests);
  std::string bytes(kRequests, '?');
  std::latch all(kRequests);
  const auto submitter = std::this_thread::get_id();
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < kRequests; ++i) {
    requests.push_back(
        IoRequest::read(i, bytes_of(bytes).subspan(i, 1), [&, i](Result<size_t> count) {
          EXPECT_EQ(count.value_or(0), 1u);
          EXPECT_NE(std::this_thread::get_id(), submitter);
          ++calls[i];
          all.count_down();
        }));
  }
  file->submit(requests);
  for (const IoRequest& request : requests) EXPECT_FALSE(static_cast<bool>(request.done));
  all.wait();
  PENSTOCK_EXPECT_OK(file->close());
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  EXPECT_EQ(bytes, std::string(kRequests, 'x'));
}

// Reads one byte after the other, each from the completion of the one before.
struct Chain {
  File& file;
  size_t left = 0;
  std::byte byte{};
  std::latch finished{1};

  void next() {
    file.submit(IoRequest::read(0, std::span(&byte, 1), [this](Result<size_t> count) {
      thread_local bool inside_submit = false;
      EXPECT_FALSE(inside_submit);
      EXPECT_EQ(count.value_or(0), 1u);
      if (left-- == 0) return finished.count_down();
      inside_submit = true;
      next();
      inside_submit = false;
    }));
  }
};

TEST_P(FileSystemConformance, ACompletionMaySubmitTheNextRequest) {
  const auto file = make("f", "x");
  Chain chain{.file = *file, .left = 500};
  chain.next();
  chain.finished.wait();
  PENSTOCK_EXPECT_OK(file->close());
}

TEST_P(FileSystemConformance, CompletionsMaySubmitManyMore) {
  constexpr size_t kFirst = 64;
  constexpr size_t kEach = 200;
  const auto file = make("f", "x");
  std::latch all(kFirst * kEach);
  std::vector<std::byte> memory(kFirst * kEach + kFirst);
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < kFirst; ++i) {
    const std::span<std::byte> mine = std::span(memory).subspan(i * (kEach + 1), kEach + 1);
    requests.push_back(IoRequest::read(0, mine.first(1), [&, mine](Result<size_t>) {
      std::vector<IoRequest> more;
      for (size_t j = 1; j <= kEach; ++j) {
        more.push_back(IoRequest::read(0, mine.subspan(j, 1), [&all](Result<size_t> count) {
          EXPECT_EQ(count.value_or(0), 1u);
          all.count_down();
        }));
      }
      file->submit(more);
    }));
  }
  file->submit(requests);
  all.wait();
  PENSTOCK_EXPECT_OK(file->close());
}

TEST_P(FileSystemConformance, AFailedRequestSaysSo) {
  make("f", "abc");
  const auto reader = *try_open("f", Create::kNever, Access::kRead);
  std::string text(3, '?');
  std::vector<IoRequest> requests;
  requests.push_back(IoRequest::read(0, bytes_of(text), nullptr));
  requests.push_back(IoRequest::write(0, std::as_bytes(std::span("xy", 2)), nullptr));
  std::vector<Result<size_t>> answers;
  PENSTOCK_EXPECT_ERROR(run_all(*reader, requests, &answers), kInvalid);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].value_or(0), 3u);
  EXPECT_FALSE(answers[1].ok());
  EXPECT_EQ(contents("f"), "abc");
}

TEST_P(FileSystemConformance, RunAllCountsWhatWasTransferred) {
  const auto file = make("f", "0123456789");
  std::string inside(4, '?');
  std::string across(8, '?');
  std::string behind(8, '?');
  std::vector<IoRequest> requests;
  requests.push_back(IoRequest::read(0, bytes_of(inside), nullptr));
  requests.push_back(IoRequest::read(6, bytes_of(across), nullptr));
  requests.push_back(IoRequest::read(20, bytes_of(behind), nullptr));
  requests.push_back(IoRequest::write(30, std::as_bytes(std::span("abc", 3)), nullptr));
  std::vector<Result<size_t>> answers;
  PENSTOCK_EXPECT_OK(run_all(*file, std::span(requests).first(3), &answers));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(*answers[0], 4u);
  EXPECT_EQ(*answers[1], 4u);
  EXPECT_EQ(*answers[2], 0u);
  EXPECT_EQ(inside, "0123");
  EXPECT_EQ(across.substr(0, 4), "6789");
  PENSTOCK_EXPECT_OK(run_all(*file, std::span(requests).subspan(3), &answers));
  EXPECT_EQ(*answers[0], 3u);
  PENSTOCK_EXPECT_OK(run_all(*file, {}));
  EXPECT_EQ(file->stat()->size, 33u);
}

}  // namespace
}  // namespace penstock::io
