#include "cache/cached_store.h"

#include <fmt/core.h>

namespace penstock::cache {

std::unique_ptr<CachedStore> make_cached_store(std::unique_ptr<store::ObjectStore> source,
                                               std::shared_ptr<Cache> cache) {
  // The only Cache there is.
  return std::make_unique<CachedStoreImpl>(std::move(source),
                                           std::static_pointer_cast<CacheCore>(std::move(cache)));
}

CachedStoreImpl::CachedStoreImpl(std::unique_ptr<store::ObjectStore> source,
                                 std::shared_ptr<CacheCore> core)
    : core_(std::move(core)),
      cache_(core_),
      source_(std::move(source)),
      identity_(source_->identity()),
      versions_(identity_, core_->options().trust_versions) {}

PassRef CachedStoreImpl::enter() {
  Gate::Pass pass = gate_.enter();
  return pass ? std::make_shared<Gate::Pass>(std::move(pass)) : nullptr;
}

EntryKey CachedStoreImpl::window_key(const Version& version, uint64_t window) const {
  const uint64_t offset = window * window_bytes();
  const uint64_t length = std::min(window_bytes(), version.info.size - offset);
  return {version.object, offset, static_cast<uint32_t>(length)};
}

CachedStoreImpl::Place CachedStoreImpl::place_of(const Version& version, uint64_t window) const {
  Place place{window_key(version, window), {}};
  place.id = entry_id(version.id, place.key.offset, place.key.length);
  return place;
}

VersionRef CachedStoreImpl::version_of(const Range& range) const {
  auto version = std::make_shared<Version>();
  version->info = {.key = range.key, .size = range.size, .etag = range.etag};
  version->object = {identity_ + range.key, range.etag, range.size};
  version->id = version_id(version->object);
  return version;
}

void CachedStoreImpl::async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                                store::GetOptions options, store::Done<store::GetResult> done) {
  // Those without bytes are questions to the source; what is no key the source refuses best.
  if (into.empty() || !store::check_key(key).ok()) {
    source_->async_get(std::move(key), offset, into, std::move(options), std::move(done));
    return;
  }
  Gate::Pass pass = gate_.enter();
  if (!pass) {
    core_->post([done = std::move(done), name = description()] {
      done(make_error(ErrorCode::kClosed, fmt::format("{} is closing", name)));
    });
    return;
  }
  const auto call = std::make_shared<GetCall>(std::move(key), offset, into, std::move(options),
                                              std::move(done), std::move(pass));
  if (call->watched()) {
    // One that is too late already must not be answered as if it were not.
    core_->watch(call);
    if (call->options().cancel.stop_requested() ||
        std::chrono::steady_clock::now() >= call->options().deadline) {
      return core_->post([call] { call->expire_if_due(); });
    }
  }
  VersionRef version = versions_.find(call->key(), call->options());
  if (version) {
    begin(call, std::move(version));
  } else {
    resolve(call);
  }
}

// Asks the source which version there is.
void CachedStoreImpl::resolve(const CallRef& call) {
  const store::CallOptions& options = call->options();
  source_->async_head(call->key(), options, [this, call](Result<store::ObjectInfo> info) {
    if (!info.ok()) return call->finish(info.error());
    const std::string& wanted = call->options().if_match;
    const VersionRef version = versions_.learn(*info);
    if (!wanted.empty() && wanted != info->etag) {
      return call->finish(make_error(ErrorCode::kChanged,
                                     fmt::format("'{}' in {} is no longer the version asked for",
                                                 call->key(), description())));
    }
    begin(call, version);
  });
}

void CachedStoreImpl::pass_on(const CallRef& call) {
  if (!call->lend()) return;
  source_->async_get(call->key(), call->offset(), call->into(), call->options(),
                     [call](Result<store::GetResult> got) {
                       call->finish(std::move(got));
                       call->give_back();
                     });
}

void CachedStoreImpl::begin(const CallRef& call, VersionRef version) {
  // Without a name for the version, or with too long a one, there is nothing to keep its bytes under.
  const bool can_be_kept = !version->info.etag.empty() &&
                           version->info.etag.size() <= kEtagBytesMax &&
                           version->object.url.size() <= kUrlBytesMax;
  if (!can_be_kept) return pass_on(call);
  const Streams::Pattern pattern =
      streams_.note(version->id.low, call->offset(), call->into().size());
  call->begin(std::move(version), window_bytes(), pattern);
  pump(call);
  if (pattern.sequential && !call->options().bypass_cache) read_ahead(call);
  // Even when all is there already, the answer does not come from inside the call.
  if (call->piece_done({})) core_->post([this, call] { complete(call); });
}

void CachedStoreImpl::complete(const CallRef& call) {
  if (!call->may_restart()) return call->finish(call->outcome());
  versions_.doubt(call->key());
  resolve(call);
}

void CachedStoreImpl::async_head(std::string key, store::CallOptions options,
                                 store::Done<store::ObjectInfo> done) {
  source_->async_head(std::move(key), std::move(options), std::move(done));
}

void CachedStoreImpl::async_list(store::ListOptions options, store::Done<store::ListPage> done) {
  source_->async_list(std::move(options), std::move(done));
}

void CachedStoreImpl::async_flush(store::CallOptions options, store::Done<void> done) {
  source_->async_flush(std::move(options), std::move(done));
}

void CachedStoreImpl::async_put(std::string key, std::span<const std::byte> bytes,
                                store::PutOptions options, store::Done<store::ObjectInfo> done) {
  const PassRef pass = enter();
  source_->async_put(key, bytes, std::move(options),
                     [this, pass, key, done = std::move(done)](Result<store::ObjectInfo> info) {
                       if (info.ok() && !info->etag.empty()) {
                         versions_.learn(*info);
                       } else {
                         versions_.doubt(key);
                       }
                       done(std::move(info));
                     });
}

void CachedStoreImpl::async_remove(std::vector<std::string> keys, store::CallOptions options,
                                   store::Done<std::vector<store::RemoveFailure>> done) {
  const PassRef pass = enter();
  source_->async_remove(
      keys, std::move(options),
      [this, pass, keys, done = std::move(done)](Result<std::vector<store::RemoveFailure>> result) {
        for (const std::string& key : keys) versions_.doubt(key);
        done(std::move(result));
      });
}

void CachedStoreImpl::async_copy(std::string from, std::string to, store::CallOptions options,
                                 store::Done<store::ObjectInfo> done) {
  const PassRef pass = enter();
  source_->async_copy(std::move(from), to, std::move(options),
                      [this, pass, to, done = std::move(done)](Result<store::ObjectInfo> info) {
                        versions_.doubt(to);
                        done(std::move(info));
                      });
}

class CachedStoreImpl::LearningUpload final : public store::Upload {
 public:
  LearningUpload(CachedStoreImpl& store, std::string key, std::unique_ptr<store::Upload> inner)
      : store_(store), key_(std::move(key)), inner_(std::move(inner)) {}

  Result<void> write(std::span<const std::byte> bytes) override { return inner_->write(bytes); }
  Result<store::ObjectInfo> finish() override {
    Result<store::ObjectInfo> info = inner_->finish();
    store_.versions_.doubt(key_);
    return info;
  }
  void abort() override { inner_->abort(); }

 private:
  CachedStoreImpl& store_;
  const std::string key_;
  const std::unique_ptr<store::Upload> inner_;
};

Result<std::unique_ptr<store::Upload>> CachedStoreImpl::start_upload(std::string key,
                                                                     store::PutOptions options) {
  std::unique_ptr<store::Upload> inner =
      PENSTOCK_TRY(source_->start_upload(key, std::move(options)));
  return std::unique_ptr<store::Upload>(
      std::make_unique<LearningUpload>(*this, std::move(key), std::move(inner)));
}

Result<void> check_window(const Result<store::GetResult>& got, const Version& version,
                          size_t bytes) {
  if (!got.ok()) return got.error();
  if (got->info.etag != version.info.etag || got->info.size != version.info.size) {
    return make_error(ErrorCode::kChanged,
                      fmt::format("'{}' changed while it was read", version.info.key));
  }
  if (got->bytes == bytes) return {};
  return make_error(ErrorCode::kIo,
                    fmt::format("'{}': the source gave {} bytes where it has {}", version.info.key,
                                got->bytes, bytes),
                    true);
}

}  // namespace penstock::cache
