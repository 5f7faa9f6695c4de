#include "mount/write_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "volume/host_test_support.h"

namespace penstock::mount {
namespace {

using volume::Bytes;

class WriteTimesTest : public testing::Test {
 protected:
  WriteTimesTest() : host_(volume::new_host(fs_)) {
    live_ = *host_->open("v");
    ino_ = volume::make_file(*live_, "a");
    times_.emplace(*live_);
  }

  meta::Time stored() { return live_->names().inode(ino_)->mtime; }
  meta::Time shown() {
    meta::Inode inode = *live_->names().inode(ino_);
    times_->show(inode);
    return inode.mtime;
  }
  void write() {
    const WriteTimes::Writing writing(*times_, ino_);
    EXPECT_THAT(live_->write(ino_, 0, Bytes(100)), IsOk());
  }
  void set(meta::Time time) {
    EXPECT_THAT(times_->set(ino_, time,
                            [&] {
                              meta::Changes changes;
                              changes.mtime = time;
                              return live_->change(ino_, changes);
                            }),
                IsOk());
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<volume::Host> host_;
  std::shared_ptr<volume::Volume> live_;
  meta::Ino ino_ = 0;
  std::optional<WriteTimes> times_;
};

TEST_F(WriteTimesTest, AWriteThatComesAfterItsTimeDoesNotChangeIt) {
  set(5000);
  write();
  EXPECT_EQ(shown(), 5000);
  times_.reset();
  EXPECT_EQ(stored(), 5000);
}

TEST_F(WriteTimesTest, TheTimeThatComesLastHolds) {
  write();
  set(6000);
  EXPECT_EQ(shown(), 6000);
  EXPECT_EQ(stored(), 6000);
  times_.reset();
  EXPECT_EQ(stored(), 6000);
}

TEST_F(WriteTimesTest, ATimeThatComesDuringAWriteHolds) {
  {
    const WriteTimes::Writing writing(*times_, ino_);
    set(7000);
    EXPECT_THAT(live_->write(ino_, 0, Bytes(100)), IsOk());
    EXPECT_EQ(shown(), 7000);
  }
  times_.reset();
  EXPECT_EQ(stored(), 7000);
}

}  // namespace
}  // namespace penstock::mount
