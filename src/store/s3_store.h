#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/gate.h"
#include "penstock/s3.h"
#include "store/s3_client.h"

namespace penstock::store {

// What open_s3_store() makes; tests and open_store() can set a little more.
struct S3StoreSettings {
  bool read_only = false;
  uint64_t copy_bytes_max = 5 * kGiB;  // Copies of larger objects are made in parts,
  uint64_t copy_part_bytes = kGiB;     // of this size at least.
};

class S3Store : public ObjectStore {
 public:
  // `prefix` is empty or ends with '/'.
  S3Store(std::shared_ptr<S3Client> client, std::string prefix, const S3StoreSettings& settings);
  ~S3Store() override;

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
  Capabilities capabilities() const override;
  std::string description() const override;
  std::string identity() const override { return client_->identity() + prefix_; }

  // As async_copy(), from another store of the same server. Requires copies_within_s3().
  void async_copy_from(S3Store& source, std::string from, std::string to, CallOptions options,
                       Done<ObjectInfo> done);

  S3Client& client() { return *client_; }

 private:
  // `done`, holding the store open until it was called. When the store is closing it is answered
  // kClosed, and what comes back is empty.
  template <typename T>
  Done<T> enter(Done<T> done);
  template <typename T>
  void refuse(Done<T> done, Error error);
  Result<void> check_full_key(const std::string& key) const;
  Result<void> check_writable() const;
  // Gives `done` the key as the store's users know it.
  Done<ObjectInfo> with_key(std::string key, Done<ObjectInfo> done);

  const std::shared_ptr<S3Client> client_;  // Uploads may outlive the store, and need it.
  const std::string prefix_;
  const S3StoreSettings settings_;
  Gate gate_;
};

// Both as stores of S3 at one server and for one user, so that objects can be copied from one to the
// other without their bytes coming here; nothing when they are not.
struct S3Pair {
  S3Store* from;  // Never null.
  S3Store* to;
};
std::optional<S3Pair> copies_within_s3(ObjectStore& from, ObjectStore& to);

Result<std::unique_ptr<S3Store>> make_s3_store(const std::string& bucket, const std::string& prefix,
                                               const S3Options& options,
                                               const S3StoreSettings& settings);

// The parts of S3Store with files of their own. `prefix` is the store's; keys in the answers are
// relative to it, those given to copy_objects are not.
void list_objects(S3Client& client, const std::string& prefix, ListOptions options,
                  Done<ListPage> done);
void remove_objects(S3Client& client, const std::string& prefix, std::vector<std::string> keys,
                    const CallOptions& options, Done<std::vector<RemoveFailure>> done);
void copy_object(S3Client& source_client, const std::string& from, S3Client& client,
                 const std::string& to, const S3StoreSettings& settings, const CallOptions& options,
                 Done<ObjectInfo> done);
std::unique_ptr<Upload> make_s3_upload(std::shared_ptr<S3Client> client, std::string key,
                                       std::string shown_key, const PutOptions& options);

}  // namespace penstock::store
