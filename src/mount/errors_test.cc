#include "mount/errors.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace penstock::mount {
namespace {

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

}  // namespace
}  // namespace penstock::mount
