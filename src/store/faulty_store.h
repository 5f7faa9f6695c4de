#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/gate.h"
#include "penstock/store.h"
#include "store/counting_store.h"

namespace penstock::store {

// What goes wrong, and how often. Which call is hit follows from the seed and the call's number
// alone, so a run with one thread repeats exactly. Rates are from 0 to 1.
struct FaultyStoreOptions {
  uint64_t seed = 1;
  std::vector<CallKind> kinds;  // The only kinds of call that are numbered and hit; empty: all.

  uint64_t fail_at = 0;   // The call of this number fails, counted from 1. 0: none does.
  double error_rate = 0;  // Any call fails.
  Error error = make_error(ErrorCode::kUnavailable, "made to fail by the test", true);
  // A call that fails is carried out first: the answer is what gets lost.
  bool fail_after_effect = false;

  double delay_rate = 0;  // Any call starts later, though never after its deadline.
  Nanoseconds delay = std::chrono::milliseconds(1);

  double truncate_rate = 0;  // A get answers with fewer bytes than the range has.
  double corrupt_rate = 0;   // A get answers with one bit of its bytes wrong.
};

// A store that fails on purpose, around one that does not.
// Threads and lifetime as for any store.
class FaultyStore final : public ObjectStore {
 public:
  FaultyStore(std::unique_ptr<ObjectStore> inner, FaultyStoreOptions options);
  ~FaultyStore() override;

  uint64_t calls() const { return calls_.load(); }  // Of the kinds that can be hit.
  uint64_t faults() const { return faults_.load(); }
  bool fault_hit() const { return faults() > 0; }
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
  struct Fault {
    bool fail = false;
    bool delay = false;
    bool truncate = false;
    bool corrupt = false;
    uint64_t dice = 0;  // Where to truncate, which bit to flip.
  };
  class FaultyUpload;
  class Timer;

  Fault draw(CallKind kind);
  template <typename T>
  void pass_on(const Fault& fault, Deadline deadline, Done<T> done,
               std::function<void(Done<T>)> start);
  template <typename T>
  Result<T> pass_on_blocking(CallKind kind, Deadline deadline,
                             const std::function<Result<T>()>& call);

  const FaultyStoreOptions options_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> faults_{0};
  Gate gate_;
  std::unique_ptr<ObjectStore> inner_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock::store
