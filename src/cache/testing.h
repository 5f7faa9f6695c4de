// What the tests of the keeper share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

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

// Waits for what another process or thread must do soon. False: it did not.
inline bool eventually(const std::function<bool()>& happened,
                       Nanoseconds within = std::chrono::seconds(60)) {
  const Deadline deadline = deadline_in(within);
  while (!happened()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace penstock::cache
