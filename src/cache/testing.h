// What the tests of the keeper share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/entry.h"

namespace penstock::cache {

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

// Entries spread over the directory as real ones are.
inline EntryId test_id(uint64_t number) {
  return {number * 0x9e3779b97f4a7c15, number ^ 0x5555555555555555};
}
inline EntryName test_name(uint64_t number, uint32_t blocks = 2) {
  return {test_id(number), blocks};
}

}  // namespace penstock::cache
