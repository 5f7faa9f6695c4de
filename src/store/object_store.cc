// What is built from the interface alone, so that every store has it.
#include "penstock/store.h"

#include <fmt/core.h>

#include "store/wait_for.h"

namespace penstock::store {

Result<GetResult> ObjectStore::get(std::string key, uint64_t offset, std::span<std::byte> into,
                                   GetOptions options) {
  return wait_for<GetResult>([&](Done<GetResult> done) {
    async_get(std::move(key), offset, into, std::move(options), std::move(done));
  });
}

Result<ObjectInfo> ObjectStore::put(std::string key, std::span<const std::byte> bytes,
                                    PutOptions options) {
  return wait_for<ObjectInfo>([&](Done<ObjectInfo> done) {
    async_put(std::move(key), bytes, std::move(options), std::move(done));
  });
}

Result<ObjectInfo> ObjectStore::head(std::string key, CallOptions options) {
  return wait_for<ObjectInfo>([&](Done<ObjectInfo> done) {
    async_head(std::move(key), std::move(options), std::move(done));
  });
}

Result<ListPage> ObjectStore::list(ListOptions options) {
  return wait_for<ListPage>(
      [&](Done<ListPage> done) { async_list(std::move(options), std::move(done)); });
}

Result<std::vector<RemoveFailure>> ObjectStore::remove(std::vector<std::string> keys,
                                                       CallOptions options) {
  return wait_for<std::vector<RemoveFailure>>([&](Done<std::vector<RemoveFailure>> done) {
    async_remove(std::move(keys), std::move(options), std::move(done));
  });
}

Result<void> ObjectStore::remove(std::string key, CallOptions options) {
  std::vector<std::string> keys;
  keys.push_back(std::move(key));
  std::vector<RemoveFailure> failures = PENSTOCK_TRY(remove(std::move(keys), std::move(options)));
  if (!failures.empty()) return std::move(failures.front().error);
  return {};
}

Result<ObjectInfo> ObjectStore::copy(std::string from, std::string to, CallOptions options) {
  return wait_for<ObjectInfo>([&](Done<ObjectInfo> done) {
    async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  });
}

Result<void> ObjectStore::flush(CallOptions options) {
  return wait_for<void>([&](Done<void> done) { async_flush(std::move(options), std::move(done)); });
}

Result<std::vector<std::byte>> read_object(ObjectStore& store, const std::string& key,
                                           uint64_t limit_bytes, GetOptions options) {
  constexpr size_t kFirstBytes = 256 * kKiB;
  std::vector<std::byte> bytes(std::min<uint64_t>(limit_bytes, kFirstBytes));
  const GetResult first = PENSTOCK_TRY(store.get(key, 0, bytes, options));
  const uint64_t size = first.info.size;
  if (size > limit_bytes) {
    return make_error(ErrorCode::kNoMemory,
                      fmt::format("{} in {} is {}, above the limit of {}", key, store.description(),
                                  format_size(size), format_size(limit_bytes)));
  }
  bytes.resize(size);
  if (first.bytes >= size) return bytes;
  options.if_match = first.info.etag;  // The rest must be of the same version.
  const GetResult rest =
      PENSTOCK_TRY(store.get(key, first.bytes, std::span(bytes).subspan(first.bytes), options));
  if (first.bytes + rest.bytes != size) {
    return make_error(ErrorCode::kChanged,
                      fmt::format("{} in {} changed while it was read", key, store.description()),
                      true);
  }
  return bytes;
}

Result<void> for_each_object(ObjectStore& store, const std::string& prefix,
                             const std::function<bool(const ObjectInfo&)>& visit,
                             CallOptions options) {
  ListOptions list;
  static_cast<CallOptions&>(list) = std::move(options);
  list.prefix = prefix;
  while (true) {
    const ListPage page = PENSTOCK_TRY(store.list(list));
    for (const ObjectInfo& object : page.objects) {
      if (!visit(object)) return {};
    }
    if (!page.next) return {};
    list.start_after = *page.next;
  }
}

Result<void> check_key(std::string_view key) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' cannot be an object's key: {}", key, why));
  };
  if (key.empty()) return refuse("it is empty");
  if (key.size() > 1024) return refuse("it is longer than 1024 bytes");
  if (key.find('\0') != std::string_view::npos) return refuse("it has a NUL byte");
  size_t begin = 0;
  while (begin <= key.size()) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.empty()) return refuse("it has an empty part between slashes");
    if (part == "." || part == "..") return refuse("'.' and '..' are not allowed as parts");
    begin = end + 1;
  }
  return {};
}

}  // namespace penstock::store
