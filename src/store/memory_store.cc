#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "store/blocking_store.h"
#include "store/identity.h"
#include "store/list_page.h"

namespace penstock::store {

namespace {

class MemoryStore final : public BlockingStore {
 public:
  MemoryStore() : BlockingStore("store-memory", 2) {}
  ~MemoryStore() override { finish_calls(); }

  Capabilities capabilities() const override { return {.shared = false}; }
  std::string description() const override { return "memory:"; }
  std::string identity() const override { return identity_; }

  Result<ObjectInfo> publish(const std::string& key, std::vector<std::byte> bytes, bool if_absent);

 protected:
  Result<GetResult> do_get(const std::string& key, uint64_t offset, std::span<std::byte> into,
                           const GetOptions& options) override;
  Result<ObjectInfo> do_put(const std::string& key, std::span<const std::byte> bytes,
                            const PutOptions& options) override;
  Result<ObjectInfo> do_head(const std::string& key, const CallOptions& options) override;
  Result<ListPage> do_list(const ListOptions& options) override;
  Result<std::vector<RemoveFailure>> do_remove(const std::vector<std::string>& keys,
                                               const CallOptions& options) override;
  Result<ObjectInfo> do_copy(const std::string& from, const std::string& to,
                             const CallOptions& options) override;
  // Memory survives no power cut, and nobody expects it to.
  Result<void> do_flush(const CallOptions&, uint64_t) override { return {}; }
  Result<std::unique_ptr<Upload>> do_start_upload(const std::string& key,
                                                  const PutOptions& options) override;

 private:
  // Immutable once in the map, so that readers copy without the lock.
  struct Object {
    std::vector<std::byte> bytes;
    uint64_t version = 0;
    int64_t mtime_ns = 0;
  };
  using ObjectRef = std::shared_ptr<const Object>;

  static ObjectInfo info_of(const std::string& key, const Object& object);
  Result<ObjectRef> find(const std::string& key);

  const std::string identity_ = own_identity("memory");
  std::mutex mutex_;
  std::map<std::string, ObjectRef, std::less<>> objects_;
  uint64_t versions_ = 0;
};

class MemoryUpload final : public Upload {
 public:
  MemoryUpload(MemoryStore& store, std::string key, PutOptions options)
      : store_(store), key_(std::move(key)), options_(std::move(options)) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    PENSTOCK_TRY(check_open());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<ObjectInfo> finish() override {
    PENSTOCK_TRY(check_open());
    closed_ = true;
    return store_.publish(key_, std::move(bytes_), options_.if_absent);
  }
  void abort() override {
    closed_ = true;
    bytes_ = {};
  }

 private:
  Result<void> check_open() const {
    if (closed_) return make_error(ErrorCode::kClosed, "the upload is over");
    return check_call(options_);
  }

  MemoryStore& store_;
  const std::string key_;
  const PutOptions options_;
  std::vector<std::byte> bytes_;
  bool closed_ = false;
};

int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

ObjectInfo MemoryStore::info_of(const std::string& key, const Object& object) {
  return {key, object.bytes.size(), fmt::format("{:016x}", object.version), object.mtime_ns};
}

Result<MemoryStore::ObjectRef> MemoryStore::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return not_found(key);
  return found->second;
}

Result<GetResult> MemoryStore::do_get(const std::string& key, uint64_t offset,
                                      std::span<std::byte> into, const GetOptions& options) {
  const ObjectRef object = PENSTOCK_TRY(find(key));
  GetResult got{0, info_of(key, *object)};
  if (!options.if_match.empty() && options.if_match != got.info.etag) return changed(key);
  const uint64_t size = object->bytes.size();
  if (offset < size) got.bytes = std::min<uint64_t>(into.size(), size - offset);
  if (got.bytes > 0) std::memcpy(into.data(), object->bytes.data() + offset, got.bytes);
  return got;
}

Result<ObjectInfo> MemoryStore::publish(const std::string& key, std::vector<std::byte> bytes,
                                        bool if_absent) {
  auto object = std::make_shared<Object>(Object{std::move(bytes), 0, now_ns()});
  std::lock_guard lock(mutex_);
  if (if_absent && objects_.contains(key)) return exists(key);
  object->version = ++versions_;
  objects_.insert_or_assign(key, object);
  return info_of(key, *object);
}

Result<ObjectInfo> MemoryStore::do_put(const std::string& key, std::span<const std::byte> bytes,
                                       const PutOptions& options) {
  return publish(key, {bytes.begin(), bytes.end()}, options.if_absent);
}

Result<ObjectInfo> MemoryStore::do_head(const std::string& key, const CallOptions&) {
  return info_of(key, *PENSTOCK_TRY(find(key)));
}

Result<ListPage> MemoryStore::do_list(const ListOptions& options) {
  PageFiller page(options.limit);
  std::lock_guard lock(mutex_);
  auto at = objects_.lower_bound(std::max(options.prefix, options.start_after));
  while (at != objects_.end() && at->first.starts_with(options.prefix)) {
    const std::string name(listed_name(at->first, options));
    if (name > options.start_after) {
      if (page.full()) return page.finish(true);
      if (is_folder(name)) page.add_folder(name);
      if (!is_folder(name)) page.add_object(info_of(at->first, *at->second));
    }
    at = is_folder(name) ? objects_.lower_bound(after_folder(name)) : std::next(at);
  }
  return page.finish(false);
}

Result<std::vector<RemoveFailure>> MemoryStore::do_remove(const std::vector<std::string>& keys,
                                                          const CallOptions&) {
  std::lock_guard lock(mutex_);
  for (const std::string& key : keys) objects_.erase(key);
  return std::vector<RemoveFailure>{};
}

Result<ObjectInfo> MemoryStore::do_copy(const std::string& from, const std::string& to,
                                        const CallOptions&) {
  const ObjectRef object = PENSTOCK_TRY(find(from));
  return publish(to, object->bytes, false);
}

Result<std::unique_ptr<Upload>> MemoryStore::do_start_upload(const std::string& key,
                                                             const PutOptions& options) {
  return std::unique_ptr<Upload>(std::make_unique<MemoryUpload>(*this, key, options));
}

}  // namespace

std::unique_ptr<ObjectStore> make_memory_store() {
  return std::make_unique<MemoryStore>();
}

}  // namespace penstock::store
