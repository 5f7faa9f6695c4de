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

namespace penstock::cache {

inline constexpr uint64_t kWindow = 256 * kKiB;

// Calls hook(number of the get, from 1) on the caller's thread before each get is passed on.
class HookedStore final : public store::ObjectStore {
 public:
  using Hook = std::function<void(uint64_t)>;

  explicit HookedStore(std::unique_ptr<store::ObjectStore> inner) : inner_(std::move(inner)) {}
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
    inner_->async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    inner_->async_put(std::move(key), bytes, std::move(options), std::move(done));
  }
  void async_head(std::string key, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    inner_->async_head(std::move(key), std::move(options), std::move(done));
  }
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override {
    inner_->async_list(std::move(options), std::move(done));
  }
  void async_remove(std::vector<std::string> keys, store::CallOptions options,
                    store::Done<std::vector<store::RemoveFailure>> done) override {
    inner_->async_remove(std::move(keys), std::move(options), std::move(done));
  }
  void async_copy(std::string from, std::string to, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    inner_->async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  }
  void async_flush(store::CallOptions options, store::Done<void> done) override {
    inner_->async_flush(std::move(options), std::move(done));
  }
  Result<std::unique_ptr<store::Upload>> start_upload(std::string key,
                                                      store::PutOptions options) override {
    return inner_->start_upload(std::move(key), std::move(options));
  }
  store::Capabilities capabilities() const override { return inner_->capabilities(); }
  std::string description() const override { return inner_->description(); }
  std::string identity() const override { return inner_->identity(); }

 private:
  const std::unique_ptr<store::ObjectStore> inner_;
  std::mutex mutex_;
  std::mutex hook_mutex_;
  Hook hook_;
  uint64_t gets_ = 0;
};

// Lets several stores, one after the other, stand in front of the same source.
class SharedSource final : public store::ObjectStore {
 public:
  explicit SharedSource(store::ObjectStore& shared) : shared_(shared) {}
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    shared_.async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    shared_.async_put(std::move(key), bytes, std::move(options), std::move(done));
  }
  void async_head(std::string key, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    shared_.async_head(std::move(key), std::move(options), std::move(done));
  }
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override {
    shared_.async_list(std::move(options), std::move(done));
  }
  void async_remove(std::vector<std::string> keys, store::CallOptions options,
                    store::Done<std::vector<store::RemoveFailure>> done) override {
    shared_.async_remove(std::move(keys), std::move(options), std::move(done));
  }
  void async_copy(std::string from, std::string to, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    shared_.async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  }
  void async_flush(store::CallOptions options, store::Done<void> done) override {
    shared_.async_flush(std::move(options), std::move(done));
  }
  Result<std::unique_ptr<store::Upload>> start_upload(std::string key,
                                                      store::PutOptions options) override {
    return shared_.start_upload(std::move(key), std::move(options));
  }
  store::Capabilities capabilities() const override { return shared_.capabilities(); }
  std::string description() const override { return shared_.description(); }
  std::string identity() const override { return shared_.identity(); }

 private:
  store::ObjectStore& shared_;
};

}  // namespace penstock::cache
