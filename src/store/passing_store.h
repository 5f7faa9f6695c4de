// A store that passes every call on: those that derive from it override what they look at, or, in
// tests, what is to go wrong.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/store.h"

namespace penstock::store {

class PassingStore : public ObjectStore {
 public:
  explicit PassingStore(std::unique_ptr<ObjectStore> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}
  // `inner` outlives it.
  explicit PassingStore(ObjectStore& inner) : inner_(inner) {}

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into, GetOptions options,
                 Done<GetResult> done) override {
    inner_.async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }
  void async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                 Done<ObjectInfo> done) override {
    inner_.async_put(std::move(key), bytes, std::move(options), std::move(done));
  }
  void async_head(std::string key, CallOptions options, Done<ObjectInfo> done) override {
    inner_.async_head(std::move(key), std::move(options), std::move(done));
  }
  void async_list(ListOptions options, Done<ListPage> done) override {
    inner_.async_list(std::move(options), std::move(done));
  }
  void async_remove(std::vector<std::string> keys, CallOptions options,
                    Done<std::vector<RemoveFailure>> done) override {
    inner_.async_remove(std::move(keys), std::move(options), std::move(done));
  }
  void async_copy(std::string from, std::string to, CallOptions options,
                  Done<ObjectInfo> done) override {
    inner_.async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  }
  void async_flush(CallOptions options, Done<void> done) override {
    inner_.async_flush(std::move(options), std::move(done));
  }
  Result<std::unique_ptr<Upload>> start_upload(std::string key, PutOptions options) override {
    return inner_.start_upload(std::move(key), std::move(options));
  }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string description() const override { return inner_.description(); }
  std::string identity() const override { return inner_.identity(); }

  ObjectStore& inner() { return inner_; }

 private:
  const std::unique_ptr<ObjectStore> owned_;
  ObjectStore& inner_;
};

}  // namespace penstock::store
