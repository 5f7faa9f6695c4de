#include "store/counting_store.h"

namespace penstock::store {

std::string_view call_kind_name(CallKind kind) {
  constexpr std::array<std::string_view, kCallKinds> kNames = {"get",    "put",  "head",  "list",
                                                               "remove", "copy", "flush", "upload"};
  return kNames[static_cast<size_t>(kind)];
}

class CountingStore::CountingUpload final : public Upload {
 public:
  CountingUpload(CountingStore& store, std::unique_ptr<Upload> inner)
      : store_(store), inner_(std::move(inner)) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    Counters& counters = store_.start(CallKind::kUpload);
    Result<void> written = inner_->write(bytes);
    if (written.ok()) counters.bytes.add(bytes.size());
    if (!written.ok()) counters.errors.add();
    return written;
  }
  Result<ObjectInfo> finish() override {
    Counters& counters = store_.start(CallKind::kUpload);
    Result<ObjectInfo> finished = inner_->finish();
    if (!finished.ok()) counters.errors.add();
    return finished;
  }
  void abort() override { inner_->abort(); }

 private:
  CountingStore& store_;
  std::unique_ptr<Upload> inner_;
};

CountingStore::Counters& CountingStore::start(CallKind kind) {
  Counters& counters = counters_[static_cast<size_t>(kind)];
  counters.calls.add();
  return counters;
}

CallCounts CountingStore::counts(CallKind kind) const {
  const Counters& counters = counters_[static_cast<size_t>(kind)];
  return {counters.calls.value(), counters.errors.value(), counters.bytes.value()};
}

template <typename T>
Done<T> CountingStore::counted(Counters& counters, Done<T> done) {
  return [&counters, done = std::move(done)](Result<T> result) {
    if (!result.ok()) counters.errors.add();
    done(std::move(result));
  };
}

void CountingStore::async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                              GetOptions options, Done<GetResult> done) {
  Counters& counters = start(CallKind::kGet);
  Done<GetResult> with_bytes = [&counters, done = std::move(done)](Result<GetResult> result) {
    if (result.ok()) counters.bytes.add(result->bytes);
    done(std::move(result));
  };
  inner_->async_get(std::move(key), offset, into, std::move(options),
                    counted(counters, std::move(with_bytes)));
}

void CountingStore::async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                              Done<ObjectInfo> done) {
  Counters& counters = start(CallKind::kPut);
  Done<ObjectInfo> with_bytes = [&counters, size = bytes.size(),
                                 done = std::move(done)](Result<ObjectInfo> result) {
    if (result.ok()) counters.bytes.add(size);
    done(std::move(result));
  };
  inner_->async_put(std::move(key), bytes, std::move(options),
                    counted(counters, std::move(with_bytes)));
}

void CountingStore::async_head(std::string key, CallOptions options, Done<ObjectInfo> done) {
  Counters& counters = start(CallKind::kHead);
  inner_->async_head(std::move(key), std::move(options), counted(counters, std::move(done)));
}

void CountingStore::async_list(ListOptions options, Done<ListPage> done) {
  Counters& counters = start(CallKind::kList);
  inner_->async_list(std::move(options), counted(counters, std::move(done)));
}

void CountingStore::async_remove(std::vector<std::string> keys, CallOptions options,
                                 Done<std::vector<RemoveFailure>> done) {
  Counters& counters = start(CallKind::kRemove);
  inner_->async_remove(std::move(keys), std::move(options), counted(counters, std::move(done)));
}

void CountingStore::async_copy(std::string from, std::string to, CallOptions options,
                               Done<ObjectInfo> done) {
  Counters& counters = start(CallKind::kCopy);
  inner_->async_copy(std::move(from), std::move(to), std::move(options),
                     counted(counters, std::move(done)));
}

void CountingStore::async_flush(CallOptions options, Done<void> done) {
  Counters& counters = start(CallKind::kFlush);
  inner_->async_flush(std::move(options), counted(counters, std::move(done)));
}

Result<std::unique_ptr<Upload>> CountingStore::start_upload(std::string key, PutOptions options) {
  Counters& counters = start(CallKind::kUpload);
  Result<std::unique_ptr<Upload>> upload = inner_->start_upload(std::move(key), std::move(options));
  if (!upload.ok()) {
    counters.errors.add();
    return upload;
  }
  return std::unique_ptr<Upload>(std::make_unique<CountingUpload>(*this, std::move(*upload)));
}

}  // namespace penstock::store
