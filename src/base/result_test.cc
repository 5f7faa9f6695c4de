#include "penstock/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace penstock {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(ErrorCode::kInvalid, "odd");
  return n / 2;
}

Result<void> check(int n) {
  if (n > 100) return make_error(ErrorCode::kNoSpace, "large");
  return {};
}

Result<int> quarter(int n) {
  PENSTOCK_TRY(check(n));
  const int once = PENSTOCK_TRY(half(n));
  return half(once);
}

TEST(Result, PropagatesTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(quarter(6).error().detail, "odd");
  EXPECT_EQ(quarter(200).error().code, ErrorCode::kNoSpace);
}

TEST(Result, CarriesMoveOnlyValues) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    std::unique_ptr<int> p = PENSTOCK_TRY(make());
    return *p;
  };
  EXPECT_EQ(*use(), 7);
}

TEST(Error, KeepsErrnoAndSaysWhatWasDone) {
  const Error error = errno_error(ENOSPC, "write /data/x");
  EXPECT_EQ(error.os_errno, ENOSPC);
  EXPECT_EQ(error.code, ErrorCode::kNoSpace);
  EXPECT_FALSE(error.retryable);
  EXPECT_EQ(error.to_string(), "no_space: write /data/x: No space left on device");
}

TEST(Error, TransientErrnosAreRetryableAndDiskErrorsAreNot) {
  EXPECT_TRUE(errno_error(EAGAIN, "x").retryable);
  EXPECT_TRUE(errno_error(ECONNRESET, "x").retryable);
  EXPECT_FALSE(errno_error(EIO, "x").retryable);
  EXPECT_EQ(errno_error(EIO, "x").code, ErrorCode::kIo);
}

TEST(Error, AnOutcomeIsNeverADeadlineThatPassed) {
  const Error late = errno_error(ETIMEDOUT, "read a");
  ASSERT_EQ(late.code, ErrorCode::kTimeout);
  EXPECT_EQ(late.as_outcome().code, ErrorCode::kUnavailable);
  EXPECT_EQ(late.as_outcome().detail, late.detail);
  EXPECT_TRUE(late.as_outcome().retryable);
  EXPECT_EQ(errno_error(EIO, "read a").as_outcome().code, ErrorCode::kIo);
}

TEST(Error, ContextGoesInFront) {
  const Error error = errno_error(ENOENT, "open a").with_context("cache");
  EXPECT_EQ(error.detail, "cache: open a: No such file or directory");
  EXPECT_EQ(error.os_errno, ENOENT);
}

}  // namespace
}  // namespace penstock
