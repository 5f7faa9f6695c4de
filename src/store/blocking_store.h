#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/store.h"
#include "store/call_queue.h"

namespace penstock::store {

// kTimeout or kCancelled when the call's deadline passed or its token was stopped.
Result<void> check_call(const CallOptions& options);

// Of stores over files: blocked in the kernel most of the time.
inline constexpr size_t kStoreThreads = 16;

// A store written as blocking code: every call runs on one of the store's own threads. What all
// stores refuse alike (bad keys, calls that are too late, writes to a read-only store) never
// reaches the do_ functions, which may run on many threads at once and use check_call() between
// their steps.
// Errors are given the name of the object here.
class BlockingStore : public ObjectStore {
 public:
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into, GetOptions options,
                 Done<GetResult> done) final;
  void async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                 Done<ObjectInfo> done) final;
  void async_head(std::string key, CallOptions options, Done<ObjectInfo> done) final;
  void async_list(ListOptions options, Done<ListPage> done) final;
  void async_remove(std::vector<std::string> keys, CallOptions options,
                    Done<std::vector<RemoveFailure>> done) final;
  void async_copy(std::string from, std::string to, CallOptions options,
                  Done<ObjectInfo> done) final;
  void async_flush(CallOptions options, Done<void> done) final;
  Result<std::unique_ptr<Upload>> start_upload(std::string key, PutOptions options) final;

 protected:
  BlockingStore(const std::string& thread_name, size_t threads_max)
      : calls_(thread_name, threads_max) {}

  // The destructor of every store begins with this: calls under way still use its members.
  void finish_calls() { calls_.finish(); }

  Error not_found(std::string_view key) const;
  Error changed(std::string_view key) const;
  Error exists(std::string_view key) const;

  virtual Result<GetResult> do_get(const std::string& key, uint64_t offset,
                                   std::span<std::byte> into, const GetOptions& options) = 0;
  virtual Result<ObjectInfo> do_put(const std::string& key, std::span<const std::byte> bytes,
                                    const PutOptions& options) = 0;
  virtual Result<ObjectInfo> do_head(const std::string& key, const CallOptions& options) = 0;
  virtual Result<ListPage> do_list(const ListOptions& options) = 0;
  virtual Result<std::vector<RemoveFailure>> do_remove(const std::vector<std::string>& keys,
                                                       const CallOptions& options) = 0;
  virtual Result<ObjectInfo> do_copy(const std::string& from, const std::string& to,
                                     const CallOptions& options) = 0;
  // How many flushes had failed when a flush was asked for. One that fails while others wait for
  // their turn takes what they were to make durable with it, so those must fail as well.
  virtual uint64_t flush_failures() const { return 0; }
  virtual Result<void> do_flush(const CallOptions& options, uint64_t failures_before) = 0;
  virtual Result<std::unique_ptr<Upload>> do_start_upload(const std::string& key,
                                                          const PutOptions& options) = 0;

 private:
  Result<void> check_write(const CallOptions& options) const;
  Result<void> check_put(const std::string& key, const PutOptions& options) const;
  Result<std::vector<RemoveFailure>> remove_valid(const std::vector<std::string>& keys,
                                                  const CallOptions& options);

  CallQueue calls_;
};

}  // namespace penstock::store
