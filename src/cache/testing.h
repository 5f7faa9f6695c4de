// What the tests of the keeper share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result_matchers.h"
#include "cache/entry.h"
#include "penstock/frame.h"

namespace penstock::cache {

// Hashes, as real ones are.
inline EntryId test_id(uint64_t number) {
  const std::span bytes = std::as_bytes(std::span(&number, 1));
  return {codec::hash_bytes(bytes, 1), codec::hash_bytes(bytes, 2)};
}
inline EntryName test_name(uint64_t number, uint32_t blocks = 2) {
  return {test_id(number), blocks};
}

}  // namespace penstock::cache
