// What a test expects of a Result: EXPECT_THAT(call(), IsOk()).
#pragma once

#include <gmock/gmock.h>

namespace penstock {

MATCHER(IsOk, negation ? "is an error" : "is no error") {
  if (!arg.ok()) *result_listener << arg.error().to_string();
  return arg.ok();
}
MATCHER_P(FailsWith, code, "") {
  if (arg.ok()) {
    *result_listener << "which is no error";
    return false;
  }
  *result_listener << arg.error().to_string();
  return arg.error().code == code;
}

}  // namespace penstock
