#include "store/blocking_store.h"

#include <fmt/core.h>

namespace penstock::store {

namespace {

Result<void> check_read(const std::string& key, const CallOptions& options) {
  PENSTOCK_TRY(check_key(key));
  return check_call(options);
}

// `result`, whose error names the object.
template <typename T>
Result<T> about(std::string_view key, Result<T> result) {
  if (result.ok() || result.error().detail.find(key) != std::string::npos) return result;
  return result.error().with_context(fmt::format("object '{}'", key));
}

}  // namespace

Result<void> check_call(const CallOptions& options) {
  if (options.cancel.stop_requested()) {
    return make_error(ErrorCode::kCancelled, "the caller cancelled the call");
  }
  if (options.deadline != kNoDeadline && std::chrono::steady_clock::now() >= options.deadline) {
    return make_error(ErrorCode::kTimeout, "the deadline of the call passed", true);
  }
  return {};
}

Error BlockingStore::not_found(std::string_view key) const {
  return make_error(ErrorCode::kNotFound, fmt::format("no object '{}' in {}", key, description()));
}

Error BlockingStore::changed(std::string_view key) const {
  return make_error(
      ErrorCode::kChanged,
      fmt::format("object '{}' in {} is not the version asked for", key, description()));
}

Error BlockingStore::exists(std::string_view key) const {
  return make_error(ErrorCode::kExists,
                    fmt::format("object '{}' is already in {}", key, description()));
}

Result<void> BlockingStore::check_write(const CallOptions& options) const {
  if (!capabilities().writable) {
    return make_error(ErrorCode::kPermission,
                      fmt::format("{} was opened read-only", description()));
  }
  return check_call(options);
}

Result<void> BlockingStore::check_put(const std::string& key, const PutOptions& options) const {
  PENSTOCK_TRY(check_key(key));
  if (options.if_absent && !capabilities().put_if_absent) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} cannot put only if absent", description()));
  }
  return check_write(options);
}

void BlockingStore::async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                              GetOptions options, Done<GetResult> done) {
  calls_.start([this, key = std::move(key), offset, into, options = std::move(options),
                done = std::move(done)] {
    if (Result<void> fine = check_read(key, options); !fine) return done(fine.error());
    done(about(key, do_get(key, offset, into, options)));
  });
}

void BlockingStore::async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                              Done<ObjectInfo> done) {
  calls_.start(
      [this, key = std::move(key), bytes, options = std::move(options), done = std::move(done)] {
        if (Result<void> fine = check_put(key, options); !fine) return done(fine.error());
        done(about(key, do_put(key, bytes, options)));
      });
}

void BlockingStore::async_head(std::string key, CallOptions options, Done<ObjectInfo> done) {
  calls_.start([this, key = std::move(key), options = std::move(options), done = std::move(done)] {
    if (Result<void> fine = check_read(key, options); !fine) return done(fine.error());
    done(about(key, do_head(key, options)));
  });
}

void BlockingStore::async_list(ListOptions options, Done<ListPage> done) {
  calls_.start([this, options = std::move(options), done = std::move(done)] {
    if (options.limit < 1 || options.limit > 1000) {
      return done(make_error(ErrorCode::kInvalid,
                             fmt::format("a page of {} entries was asked for; 1 to 1000 are "
                                         "possible",
                                         options.limit)));
    }
    if (Result<void> fine = check_call(options); !fine) return done(fine.error());
    done(do_list(options));
  });
}

Result<std::vector<RemoveFailure>> BlockingStore::remove_valid(const std::vector<std::string>& keys,
                                                               const CallOptions& options) {
  PENSTOCK_TRY(check_write(options));
  std::vector<std::string> valid;
  std::vector<RemoveFailure> refused;
  for (const std::string& key : keys) {
    const Result<void> fine = check_key(key);
    if (fine.ok()) valid.push_back(key);
    if (!fine.ok()) refused.push_back({key, fine.error()});
  }
  std::vector<RemoveFailure> failures = PENSTOCK_TRY(do_remove(valid, options));
  failures.insert(failures.end(), refused.begin(), refused.end());
  return failures;
}

void BlockingStore::async_remove(std::vector<std::string> keys, CallOptions options,
                                 Done<std::vector<RemoveFailure>> done) {
  calls_.start([this, keys = std::move(keys), options = std::move(options),
                done = std::move(done)] { done(remove_valid(keys, options)); });
}

void BlockingStore::async_copy(std::string from, std::string to, CallOptions options,
                               Done<ObjectInfo> done) {
  calls_.start([this, from = std::move(from), to = std::move(to), options = std::move(options),
                done = std::move(done)] {
    if (Result<void> fine = check_read(from, options); !fine) return done(fine.error());
    if (Result<void> fine = check_key(to); !fine) return done(fine.error());
    if (Result<void> fine = check_write(options); !fine) return done(fine.error());
    done(about(from, do_copy(from, to, options)));
  });
}

void BlockingStore::async_flush(CallOptions options, Done<void> done) {
  calls_.start([this, options = std::move(options), failures_before = flush_failures(),
                done = std::move(done)] {
    if (Result<void> fine = check_call(options); !fine) return done(fine.error());
    done(do_flush(options, failures_before));
  });
}

Result<std::unique_ptr<Upload>> BlockingStore::start_upload(std::string key, PutOptions options) {
  PENSTOCK_TRY(check_put(key, options));
  return about(key, do_start_upload(key, options));
}

}  // namespace penstock::store
