// What the tests of a tier on a drive that misbehaves share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cache/ailing_file_system.h"
#include "cache/tier.h"
#include "cache/tier_test_support.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

// Tries an ill drive again soon.
inline TierOptions quick_options() {
  TierOptions options = patient_options();
  options.retry_every = std::chrono::milliseconds(20);
  return options;
}

class TierFaults : public testing::Test {
 protected:
  // Changes a file behind the tier's back.
  void flip(const EntryKey& key, uint64_t at) {
    const auto file = open(key);
    std::byte byte{};
    ASSERT_EQ(file->read(at, {&byte, 1}).value(), 1u);
    byte ^= std::byte{0x10};
    ASSERT_TRUE(file->write(at, {&byte, 1}).ok());
  }
  void truncate(const EntryKey& key, uint64_t size) { ASSERT_TRUE(open(key)->truncate(size).ok()); }
  void overwrite(const EntryKey& key, std::span<const std::byte> bytes) {
    ASSERT_TRUE(open(key)->write(0, bytes).ok());
  }
  bool is_there(const EntryKey& key) { return memory_.stat(tier_->file_of(key)).ok(); }
  uint64_t failures() { return tier_->tier().stats().verification_failures; }

  std::unique_ptr<io::File> open(const EntryKey& key) {
    return memory_.open(tier_->file_of(key), {.access = io::Access::kReadWrite}).value();
  }
  void start(TierOptions options = patient_options()) {
    tier_ = std::make_unique<TestTier>(fs_, std::move(options));
  }
  // An entry that is there; `opened`: and is open.
  void put(const EntryKey& key, bool opened) {
    ASSERT_EQ(outcome(tier_->fill(key)), "ok");
    if (opened) {
      ASSERT_TRUE(is_data(tier_->read(key), key));
    }
  }

  io::MemoryFileSystem memory_;
  AilingFileSystem fs_{memory_};
  std::unique_ptr<TestTier> tier_;
};

}  // namespace penstock::cache
