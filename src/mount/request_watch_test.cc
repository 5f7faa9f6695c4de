// Requests come and answers go over a pair of sockets, as they do over /dev/fuse.
#include "mount/request_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "volume/log_lines.h"

namespace penstock::mount {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

fuse_read_in read_of(uint64_t offset, uint32_t size) {
  fuse_read_in body{};
  body.offset = offset;
  body.size = size;
  return body;
}

fuse_write_in write_of(uint32_t size) {
  fuse_write_in body{};
  body.size = size;
  return body;
}

class RequestWatchTest : public ::testing::Test {
 protected:
  RequestWatchTest() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_), 0); }
  ~RequestWatchTest() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  // The kernel sends it, and this thread reads it.
  template <typename Body>
  void send(uint32_t opcode, uint64_t number, const Body& body) {
    std::vector<std::byte> bytes(sizeof(fuse_in_header) + sizeof body);
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(bytes.size());
    header.opcode = opcode;
    header.unique = number;
    header.nodeid = 12;
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
    ASSERT_EQ(::write(ends_[0], bytes.data(), bytes.size()), std::ssize(bytes));
    std::vector<std::byte> into(kMiB);
    ASSERT_EQ(watch_.read(ends_[1], into.data(), into.size()), std::ssize(bytes));
  }
  void answer(uint64_t number, int error, size_t bytes = 0) {
    std::vector<std::byte> body(bytes);
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof header + bytes);
    header.error = -error;
    header.unique = number;
    iovec parts[2] = {{&header, sizeof header}, {body.data(), body.size()}};
    EXPECT_EQ(watch_.write(ends_[1], parts, bytes > 0 ? 2 : 1),
              static_cast<ssize_t>(sizeof header + bytes));
  }
  uint64_t errors(const char* name) {
    return Metrics::global().counter("penstock_mount_errors_total", "", {{"error", name}}).value();
  }

  int ends_[2] = {-1, -1};
  volume::LogLines log_;
  RequestMetrics metrics_;  // The same as those of the watch: there is one of each in the process.
  RequestWatch watch_{{.threshold = 10ms, .store = "s3://bucket"}, /*stay_awake=*/false};
};

TEST_F(RequestWatchTest, CountsByKindAndSeesHowLongTheyTook) {
  const uint64_t reads = metrics_.seconds(FUSE_READ).count();
  const uint64_t creates = metrics_.seconds(FUSE_CREATE).count();
  const uint64_t read = metrics_.read_bytes.value();
  const uint64_t written = metrics_.written_bytes.value();
  send(FUSE_READ, 2, read_of(0, 4096));
  answer(2, 0, 1000);
  send(FUSE_WRITE, 4, write_of(300));
  answer(4, 0, sizeof(fuse_write_out));
  send(FUSE_MKDIR, 6, fuse_mkdir_in{});
  answer(6, 0, 100);
  EXPECT_EQ(metrics_.seconds(FUSE_READ).count(), reads + 1);
  EXPECT_EQ(metrics_.seconds(FUSE_CREATE).count(), creates + 1);  // A directory is made, too.
  EXPECT_EQ(metrics_.read_bytes.value(), read + 1000);
  EXPECT_EQ(metrics_.written_bytes.value(), written + 300);
  EXPECT_THAT(watch_.counts(),
              UnorderedElementsAre(Pair("read", 1), Pair("write", 1), Pair("mkdir", 1)));
}

TEST_F(RequestWatchTest, CountsErrorsByTheirNumber) {
  const uint64_t io = errors("EIO");
  const uint64_t other = errors("other");
  const uint64_t written = metrics_.written_bytes.value();
  send(FUSE_WRITE, 2, write_of(300));
  answer(2, EIO);
  send(FUSE_GETATTR, 4, fuse_getattr_in{});
  answer(4, ENOTTY);
  send(FUSE_OPEN, 6, fuse_open_in{});
  answer(6, ENOSYS);  // It is told not to ask again: no error.
  send(FUSE_OPEN, 8, fuse_open_in{});
  answer(8, 10'000);
  EXPECT_EQ(errors("EIO"), io + 1);
  EXPECT_EQ(errors("other"), other + 2);
  EXPECT_EQ(metrics_.written_bytes.value(), written);
}

TEST_F(RequestWatchTest, AnswersOfAnotherThreadCountOnceTheyAreHandedOver) {
  const uint64_t seeks = metrics_.seconds(FUSE_LSEEK).count();
  send(FUSE_LSEEK, 2, fuse_lseek_in{});
  const RequestFacts facts = watch_.hand_over();
  std::thread([&] {
    watch_.take_over(facts);
    answer(2, 0, sizeof(fuse_lseek_out));
  }).join();
  EXPECT_EQ(metrics_.seconds(FUSE_LSEEK).count(), seeks + 1);
}

TEST_F(RequestWatchTest, NoticesAndForgetsAreNoRequestsThatAreAnswered) {
  const uint64_t others = metrics_.seconds(FUSE_FORGET).count();
  send(FUSE_FORGET, 2, fuse_forget_in{});
  answer(0, 0, 100);  // A notice.
  EXPECT_EQ(metrics_.seconds(FUSE_FORGET).count(), others);
}

TEST_F(RequestWatchTest, TellsOfOneThatHangs) {
  send(FUSE_READ, 2, read_of(4096, 8192));
  const WaitingFor wait("an answer of the store");
  while (log_.count("is not answered yet") == 0) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(log_.with("is not answered yet"), HasSubstr("read of inode 12, 8192 bytes at 4096"));
  EXPECT_THAT(log_.with("is not answered yet"), HasSubstr("an answer of the store"));
  answer(2, 0, 100);
}

TEST_F(RequestWatchTest, WhatTheKernelSaysToAnAnswerComesThrough) {
  send(FUSE_READ, 2, read_of(0, 4096));
  std::this_thread::sleep_for(20ms);  // So that it is told of, which must not hide the error.
  fuse_out_header header{};
  header.unique = 2;
  iovec part{&header, sizeof header};
  errno = 0;
  EXPECT_EQ(watch_.write(-1, &part, 1), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace penstock::mount
