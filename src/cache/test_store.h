// A source for tests: objects in memory, counted, and with a hook before every get.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include "cache/entry_test_data.h"
#include "penstock/store.h"
#include "store/counting_store.h"
#include "store/passing_store.h"

namespace penstock::cache {

inline constexpr uint64_t kWindow = 256 * kKiB;

// Calls hook(number of the get, from 1) on the caller's thread before each get is passed on.
class HookedStore final : public store::PassingStore {
 public:
  using Hook = std::function<void(uint64_t)>;

  using PassingStore::PassingStore;
  void set_hook(Hook hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
    gets_ = 0;
  }

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    Hook hook;
    uint64_t number = 0;
    {
      std::lock_guard lock(mutex_);
      hook = hook_;
      number = ++gets_;
    }
    if (hook) {
      std::lock_guard turn(hook_mutex_);  // Hooks need not be safe against themselves.
      hook(number);
    }
    PassingStore::async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }

 private:
  std::mutex mutex_;
  std::mutex hook_mutex_;
  Hook hook_;
  uint64_t gets_ = 0;
};

// Lets several stores, one after the other, stand in front of the same source.
class SharedSource final : public store::PassingStore {
 public:
  explicit SharedSource(store::ObjectStore& shared) : PassingStore(shared) {}
};

}  // namespace penstock::cache
