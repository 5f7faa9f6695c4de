// How changes happen whole or not at all.
#include "meta/core.h"

#include "io/memory_file_system.h"
#include "meta/conformance.h"

namespace penstock::meta {
namespace {

class CoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(core_.connect({.create = test_settings()}), IsOk()); }

  Result<void> add_row() {
    core_.note_change();
    PENSTOCK_TRY(core_.db().run("INSERT INTO snapshot VALUES(1, ?, 1, 1)", core_.next_ino()));
    return {};
  }
  Result<void> refuse() { return posix_error(EPERM, "it"); }
  int64_t rows() { return *core_.db().value("SELECT count(*) FROM snapshot"); }

  io::MemoryFileSystem fs_;
  Core core_{fs_, "/volume.db"};
};

TEST_F(CoreTest, WhatIsRefusedTakesNoNumbers) {
  const Ino before = core_.counters().ino;
  const auto late = [&]() -> Result<void> {
    (void)core_.next_ino();
    (void)core_.next_cookie();
    (void)core_.next_chunk();
    return refuse();
  };
  EXPECT_THAT(core_.change(late), FailsErrno(EPERM));
  EXPECT_THAT(core_.change_much(late), FailsErrno(EPERM));
  EXPECT_EQ(core_.counters().ino, before);
  EXPECT_EQ(core_.counters().cookie, 1u);
  EXPECT_EQ(core_.counters().chunk, 1u);
  EXPECT_THAT(core_.change([&] { return add_row(); }), IsOk());
  EXPECT_EQ(core_.counters().ino, before + 1);
}

TEST_F(CoreTest, ManyChangesAreUndone) {
  const auto half = [&]() -> Result<void> {
    PENSTOCK_TRY(add_row());
    PENSTOCK_TRY(add_row());
    return refuse();
  };
  EXPECT_THAT(core_.change_much(half), FailsErrno(EPERM));
  EXPECT_EQ(rows(), 0);
  EXPECT_EQ(*core_.commit({}), kFirstVersion);  // Nothing happened.
  EXPECT_THAT(core_.change_much([&] { return add_row(); }), IsOk());
  EXPECT_EQ(rows(), 1);
}

TEST_F(CoreTest, HalfAChangeIsNeverCommitted) {
  ASSERT_THAT(core_.change([&] { return add_row(); }), IsOk());
  ASSERT_THAT(core_.commit({}), IsOk());
  const auto half = [&]() -> Result<void> {
    PENSTOCK_TRY(add_row());
    return refuse();
  };
  EXPECT_THAT(core_.change(half), FailsErrno(EPERM));
  EXPECT_THAT(core_.commit({}), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(core_.read([]() -> Result<void> { return {}; }), FailsWith(ErrorCode::kIo));
}

}  // namespace
}  // namespace penstock::meta
