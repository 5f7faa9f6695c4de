#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "penstock/store.h"

namespace penstock::store {

// The calls of an ObjectStore, for what counts them or makes them fail. kUpload stands for
// start_upload, write and finish alike.
enum class CallKind : uint8_t { kGet, kPut, kHead, kList, kRemove, kCopy, kFlush, kUpload };
inline constexpr size_t kCallKinds = 8;
std::string_view call_kind_name(CallKind kind);

// What happened to one kind of call so far.
struct CallCounts {
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint64_t bytes = 0;  // Got by get; taken by put and by uploads.
};

// Passes every call on to `inner` and counts it. A call is counted when it is made, its bytes and
// errors when it is done, before `done` runs.
// Threads and lifetime as for any store.
class CountingStore final : public ObjectStore {
 public:
  explicit CountingStore(std::unique_ptr<ObjectStore> inner) : inner_(std::move(inner)) {}

  CallCounts counts(CallKind kind) const;
  ObjectStore& inner() { return *inner_; }

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into, GetOptions options,
                 Done<GetResult> done) override;
  void async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                 Done<ObjectInfo> done) override;
  void async_head(std::string key, CallOptions options, Done<ObjectInfo> done) override;
  void async_list(ListOptions options, Done<ListPage> done) override;
  void async_remove(std::vector<std::string> keys, CallOptions options,
                    Done<std::vector<RemoveFailure>> done) override;
  void async_copy(std::string from, std::string to, CallOptions options,
                  Done<ObjectInfo> done) override;
  void async_flush(CallOptions options, Done<void> done) override;
  Result<std::unique_ptr<Upload>> start_upload(std::string key, PutOptions options) override;
  Capabilities capabilities() const override { return inner_->capabilities(); }
  std::string description() const override { return inner_->description(); }
  std::string identity() const override { return inner_->identity(); }

 private:
  struct Counters {
    Counter calls;
    Counter errors;
    Counter bytes;
  };
  class CountingUpload;

  Counters& start(CallKind kind);
  // `done`, after counting the error if there is one.
  template <typename T>
  static Done<T> counted(Counters& counters, Done<T> done);

  std::array<Counters, kCallKinds> counters_;
  std::unique_ptr<ObjectStore> inner_;  // Last: goes first, when its calls still count.
};

}  // namespace penstock::store
