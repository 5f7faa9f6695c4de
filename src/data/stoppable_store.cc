#include "data/stoppable_store.h"

namespace penstock::data {

namespace {

using store::Done;
using store::ObjectInfo;

class StoppableStore final : public store::ObjectStore {
 public:
  StoppableStore(std::unique_ptr<store::ObjectStore> inner, std::stop_token stop)
      : inner_(std::move(inner)), stop_(std::move(stop)) {}

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, Done<store::GetResult> done) override {
    add_stop(options);
    inner_->async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }
  void async_head(std::string key, store::CallOptions options, Done<ObjectInfo> done) override {
    add_stop(options);
    inner_->async_head(std::move(key), std::move(options), std::move(done));
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 Done<ObjectInfo> done) override {
    inner_->async_put(std::move(key), bytes, std::move(options), std::move(done));
  }
  void async_list(store::ListOptions options, Done<store::ListPage> done) override {
    inner_->async_list(std::move(options), std::move(done));
  }
  void async_remove(std::vector<std::string> keys, store::CallOptions options,
                    Done<std::vector<store::RemoveFailure>> done) override {
    inner_->async_remove(std::move(keys), std::move(options), std::move(done));
  }
  void async_copy(std::string from, std::string to, store::CallOptions options,
                  Done<ObjectInfo> done) override {
    inner_->async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  }
  void async_flush(store::CallOptions options, Done<void> done) override {
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
  void add_stop(store::CallOptions& options) const {
    if (!options.cancel.stop_possible()) options.cancel = stop_;
  }

  const std::unique_ptr<store::ObjectStore> inner_;
  const std::stop_token stop_;
};

}  // namespace

std::unique_ptr<store::ObjectStore> make_stoppable(std::unique_ptr<store::ObjectStore> inner,
                                                   std::stop_token stop) {
  return std::make_unique<StoppableStore>(std::move(inner), std::move(stop));
}

}  // namespace penstock::data
