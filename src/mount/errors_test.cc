#include "mount/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "volume/log_lines.h"

namespace penstock::mount {
namespace {

using ::testing::HasSubstr;

TEST(MountErrors, TheErrnoThatIsThereWins) {
  Error error = make_error(ErrorCode::kNotFound, "x");
  EXPECT_EQ(errno_of(error), ENOENT);
  error.os_errno = ENODATA;
  EXPECT_EQ(errno_of(error), ENODATA);
}

TEST(MountErrors, ThatOfTheNetworkDoesNot) {
  Error error = make_error(ErrorCode::kUnavailable, "x");
  error.os_errno = ECONNREFUSED;
  EXPECT_EQ(errno_of(error), EIO);
}

TEST(MountErrors, EveryKindHasOne) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kClosed); ++code) {
    EXPECT_GT(errno_of(make_error(static_cast<ErrorCode>(code), "x")), 0) << code;
  }
  EXPECT_EQ(errno_of(make_error(ErrorCode::kCorrupt, "x")), EIO);
  EXPECT_EQ(errno_of(make_error(ErrorCode::kNoSpace, "x")), ENOSPC);
}

TEST(MountErrors, WhatTheProgramOnlySeesAsEioIsToldInTheLog) {
  const volume::LogLines log;
  const Error error = make_error(ErrorCode::kTimeout, "object 'x' of s3://bucket: too late", true);
  EXPECT_EQ(report(error, "read", 12), EIO);
  EXPECT_THAT(log.with("the program gets EIO"), HasSubstr("operation=read inode=12"));
  EXPECT_THAT(log.with("the program gets EIO"), HasSubstr("object 'x' of s3://bucket"));
  EXPECT_EQ(report(make_error(ErrorCode::kNotFound, "y"), "read", 12), ENOENT);
  EXPECT_EQ(log.get().size(), 1u);
}

TEST(MountErrors, AThousandAreAFewLines) {
  const volume::LogLines log;
  for (int i = 0; i < 1000; ++i) (void)report(make_error(ErrorCode::kTimeout, "z"), "read", 12);
  EXPECT_GE(log.get().size(), 1u);
  EXPECT_LE(log.get().size(), 10u);
}

}  // namespace
}  // namespace penstock::mount
