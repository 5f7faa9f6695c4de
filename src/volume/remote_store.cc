#include "volume/remote_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "store/blocking_store.h"
#include "volume/control_call.h"
#include "volume/owner.h"

namespace penstock::volume {

namespace {

using control::Health;
using control::Kind;
using control::Link;
using control::Patience;
using store::CallOptions;
using store::GetOptions;
using store::GetResult;
using store::ListOptions;
using store::ListPage;
using store::ObjectInfo;
using store::PutOptions;
using store::RemoveFailure;

constexpr size_t kIdleMax = store::kStoreThreads;
constexpr size_t kKeysAtOnce = 500;
// One owner may end while the next one is asked.
constexpr int kOwnerAttempts = 3;
constexpr int kVersionAttempts = 4;

Patience patience_of(const CallOptions& options) {
  return {.deadline = options.deadline, .cancel = options.cancel};
}

class RemoteStore final : public store::BlockingStore {
 public:
  explicit RemoteStore(const PenOptions& options)
      : BlockingStore("store-pen", store::kStoreThreads), options_(options) {}
  ~RemoteStore() override { finish_calls(); }

  // The first connection.
  Result<void> open(control::Channel channel) {
    Link link;
    link.channel = std::move(channel);
    about_ = PENSTOCK_TRY(open_on(link, {}));
    give_back(std::move(link));
    return {};
  }

  store::Capabilities capabilities() const override {
    return {.writable = about_.writable, .shared = about_.shared};
  }
  std::string description() const override { return about_.description; }
  std::string identity() const override { return about_.identity; }

  void give_back(Link link);

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
  Result<void> do_flush(const CallOptions& options, uint64_t failures_before) override;
  Result<std::unique_ptr<store::Upload>> do_start_upload(const std::string& key,
                                                         const PutOptions& options) override;

 private:
  // A way to the volume: the store of this process, once it has it, or a connection.
  struct Way {
    std::shared_ptr<store::ObjectStore> local;
    Link link;
  };
  Result<Way> take(const CallOptions& options);
  Result<Way> reach_anew(const CallOptions& options);
  std::optional<Link> take_idle();
  Result<control::OpenStoreAnswer> open_on(Link& link, const Patience& patience);

  // Asks, and where the owner went away meanwhile, asks again if `again`.
  template <typename T>
  Result<T> ask(bool again, const CallOptions& options,
                const std::function<Result<T>(store::ObjectStore&)>& here,
                const std::function<Result<T>(Link&)>& there);
  template <typename T, typename Request>
  Result<T> exchange(Link& link, Kind kind, const Request& request, const CallOptions& options);

  Result<GetResult> get_piece(Link& link, const std::string& key, uint64_t offset,
                              std::span<std::byte> into, const GetOptions& options);
  Result<GetResult> get_whole(Link& link, const std::string& key, uint64_t offset,
                              std::span<std::byte> into, const GetOptions& options);

  const PenOptions options_;
  control::OpenStoreAnswer about_;
  std::mutex mutex_;
  std::vector<Link> idle_;
  std::shared_ptr<store::ObjectStore> local_;  // Under mutex_, and stays.
};

// A connection of its own, from the first byte to the last.
class RemoteUpload final : public store::Upload {
 public:
  RemoteUpload(RemoteStore& store, Link link, PutOptions options)
      : store_(store), link_(std::move(link)), options_(std::move(options)) {}
  ~RemoteUpload() override { abort(); }

  Result<void> start(const std::string& key) {
    ++link_.last_request;
    return control::send_request(
        link_, Kind::kPut,
        control::encode(control::PutRequest{.key = key,
                                            .if_absent = options_.if_absent,
                                            .mtime_ns = options_.mtime_ns,
                                            .mode = options_.mode,
                                            .size = options_.size,
                                            .timeout_ns = control::timeout_of(options_.deadline)}));
  }
  Result<void> write(std::span<const std::byte> bytes) override {
    PENSTOCK_TRY(check_open());
    while (!bytes.empty()) {
      // Nothing is due before the end: it is an error.
      if (link_.channel.peer_is_gone()) PENSTOCK_TRY(answer());
      const auto piece = bytes.first(std::min<size_t>(bytes.size(), control::kPayloadBytesMax));
      PENSTOCK_TRY(control::send_request(link_, Kind::kPutData, {}, piece));
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }
  Result<ObjectInfo> finish() override {
    PENSTOCK_TRY(check_open());
    closed_ = true;
    PENSTOCK_TRY(control::send_request(link_, Kind::kPutEnd, {}));
    const control::Answer got = PENSTOCK_TRY(answer());
    ObjectInfo info = PENSTOCK_TRY(control::decode<ObjectInfo>(got.body));
    store_.give_back(std::move(link_));
    return info;
  }
  // The other end forgets it with the connection.
  void abort() override {
    closed_ = true;
    link_.channel = {};
  }
  Health health() const { return link_.health; }

 private:
  Result<void> check_open() const {
    if (closed_) return make_error(ErrorCode::kClosed, "the upload is over");
    return store::check_call(options_);
  }
  Result<control::Answer> answer() {
    return control::await_answer(link_, {}, patience_of(options_));
  }

  RemoteStore& store_;
  Link link_;
  const PutOptions options_;
  bool closed_ = false;
};

std::optional<Link> RemoteStore::take_idle() {
  const std::lock_guard lock(mutex_);
  while (!idle_.empty()) {
    Link link = std::move(idle_.back());
    idle_.pop_back();
    if (!link.channel.peer_is_gone()) return link;
  }
  return std::nullopt;
}

void RemoteStore::give_back(Link link) {
  if (link.health != Health::kFine) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(link));
}

Result<control::OpenStoreAnswer> RemoteStore::open_on(Link& link, const Patience& patience) {
  const control::OpenStoreRequest request{.volume = options_.volume,
                                          .folder = options_.folder,
                                          .name = options_.name,
                                          .read_only = options_.read_only};
  const control::Answer answer =
      PENSTOCK_TRY(control::call(link, Kind::kOpenStore, control::encode(request), patience));
  return control::decode<control::OpenStoreAnswer>(answer.body);
}

Result<RemoteStore::Way> RemoteStore::take(const CallOptions& options) {
  Way way;
  {
    const std::lock_guard lock(mutex_);
    way.local = local_;
  }
  if (way.local) return way;
  if (std::optional<Link> idle = take_idle()) {
    way.link = std::move(*idle);
    return way;
  }
  Result<control::Channel> channel = control::connect_to_owner(options_.directory);
  if (!channel.ok() && channel.error().code == ErrorCode::kUnavailable) return reach_anew(options);
  if (!channel.ok()) return channel.error();
  way.link.channel = std::move(*channel);
  const Result<control::OpenStoreAnswer> opened = open_on(way.link, patience_of(options));
  if (!opened.ok() && way.link.health == Health::kLost) return reach_anew(options);
  if (!opened.ok()) return opened.error();
  return way;
}

// Whoever had it is gone.
Result<RemoteStore::Way> RemoteStore::reach_anew(const CallOptions& options) {
  Way way;
  Reached reached = PENSTOCK_TRY(reach(options_.directory, options_.host));
  if (!reached.owner) {
    way.link.channel = std::move(reached.channel);
    PENSTOCK_TRY(open_on(way.link, patience_of(options)));
    return way;
  }
  std::shared_ptr<store::ObjectStore> local =
      PENSTOCK_TRY(make_owned_store(std::move(reached.owner), options_));
  const std::lock_guard lock(mutex_);
  if (!local_) local_ = std::move(local);
  idle_.clear();
  way.local = local_;
  return way;
}

template <typename T>
Result<T> RemoteStore::ask(bool again, const CallOptions& options,
                           const std::function<Result<T>(store::ObjectStore&)>& here,
                           const std::function<Result<T>(Link&)>& there) {
  for (int attempt = 1;; ++attempt) {
    PENSTOCK_TRY(store::check_call(options));
    Way way = PENSTOCK_TRY(take(options));
    if (way.local) return here(*way.local);
    Result<T> done = there(way.link);
    if (way.link.health != Health::kLost || !again || attempt == kOwnerAttempts) {
      give_back(std::move(way.link));
      return done;
    }
  }
}

template <typename T, typename Request>
Result<T> RemoteStore::exchange(Link& link, Kind kind, const Request& request,
                                const CallOptions& options) {
  const control::Answer answer =
      PENSTOCK_TRY(control::call(link, kind, control::encode(request), patience_of(options)));
  return control::decode<T>(answer.body);
}

Result<GetResult> RemoteStore::get_piece(Link& link, const std::string& key, uint64_t offset,
                                         std::span<std::byte> into, const GetOptions& options) {
  const control::GetRequest request{.key = key,
                                    .offset = offset,
                                    .length = static_cast<uint32_t>(into.size()),
                                    .if_match = options.if_match,
                                    .bypass_cache = options.bypass_cache,
                                    .timeout_ns = control::timeout_of(options.deadline)};
  const control::Answer answer = PENSTOCK_TRY(
      control::call(link, Kind::kGet, control::encode(request), patience_of(options), into));
  return GetResult{answer.payload_bytes, PENSTOCK_TRY(control::decode<ObjectInfo>(answer.body))};
}

// In pieces, all of the version of the first one.
Result<GetResult> RemoteStore::get_whole(Link& link, const std::string& key, uint64_t offset,
                                         std::span<std::byte> into, const GetOptions& options) {
  const auto piece_of = [&](size_t at) {
    return into.subspan(at, std::min<size_t>(into.size() - at, control::kPayloadBytesMax));
  };
  GetResult got = PENSTOCK_TRY(get_piece(link, key, offset, piece_of(0), options));
  GetOptions same = options;
  same.if_match = got.info.etag;
  size_t asked = piece_of(0).size();
  while (got.bytes == asked && got.bytes < into.size()) {
    const auto piece = piece_of(got.bytes);
    const GetResult next = PENSTOCK_TRY(get_piece(link, key, offset + got.bytes, piece, same));
    got.bytes += next.bytes;
    asked += piece.size();
  }
  return got;
}

Result<GetResult> RemoteStore::do_get(const std::string& key, uint64_t offset,
                                      std::span<std::byte> into, const GetOptions& options) {
  return ask<GetResult>(
      true, options,
      [&](store::ObjectStore& store) { return store.get(key, offset, into, options); },
      [&](Link& link) -> Result<GetResult> {
        for (int attempt = 1;; ++attempt) {
          Result<GetResult> got = get_whole(link, key, offset, into, options);
          const bool replaced = !got.ok() && got.error().code == ErrorCode::kChanged;
          if (!replaced || !options.if_match.empty() || attempt == kVersionAttempts) return got;
        }
      });
}

Result<ObjectInfo> RemoteStore::do_head(const std::string& key, const CallOptions& options) {
  return ask<ObjectInfo>(
      true, options, [&](store::ObjectStore& store) { return store.head(key, options); },
      [&](Link& link) {
        const control::KeyRequest request{key, control::timeout_of(options.deadline)};
        return exchange<ObjectInfo>(link, Kind::kHead, request, options);
      });
}

Result<ListPage> RemoteStore::do_list(const ListOptions& options) {
  return ask<ListPage>(
      true, options, [&](store::ObjectStore& store) { return store.list(options); },
      [&](Link& link) {
        const control::ListRequest request{options.prefix, options.by_folder, options.start_after,
                                           options.limit, control::timeout_of(options.deadline)};
        return exchange<ListPage>(link, Kind::kList, request, options);
      });
}

Result<std::vector<RemoveFailure>> RemoteStore::do_remove(const std::vector<std::string>& keys,
                                                          const CallOptions& options) {
  std::vector<RemoveFailure> failures;
  for (size_t at = 0; at < keys.size(); at += kKeysAtOnce) {
    const size_t end = std::min(keys.size(), at + kKeysAtOnce);
    const std::vector<std::string> some(keys.begin() + static_cast<ptrdiff_t>(at),
                                        keys.begin() + static_cast<ptrdiff_t>(end));
    auto failed = PENSTOCK_TRY(ask<std::vector<RemoveFailure>>(
        true, options, [&](store::ObjectStore& store) { return store.remove(some, options); },
        [&](Link& link) {
          const control::RemoveRequest request{some, control::timeout_of(options.deadline)};
          return exchange<std::vector<RemoveFailure>>(link, Kind::kRemove, request, options);
        }));
    std::ranges::move(failed, std::back_inserter(failures));
  }
  return failures;
}

Result<ObjectInfo> RemoteStore::do_copy(const std::string& from, const std::string& to,
                                        const CallOptions& options) {
  return ask<ObjectInfo>(
      true, options, [&](store::ObjectStore& store) { return store.copy(from, to, options); },
      [&](Link& link) {
        const control::CopyRequest request{from, to, control::timeout_of(options.deadline)};
        return exchange<ObjectInfo>(link, Kind::kCopy, request, options);
      });
}

Result<void> RemoteStore::do_flush(const CallOptions& options, uint64_t) {
  return ask<void>(
      true, options, [&](store::ObjectStore& store) { return store.flush(options); },
      [&](Link& link) -> Result<void> {
        const control::TimeoutRequest request{control::timeout_of(options.deadline)};
        PENSTOCK_TRY(exchange<control::Nothing>(link, Kind::kFlush, request, options));
        return {};
      });
}

Result<ObjectInfo> RemoteStore::do_put(const std::string& key, std::span<const std::byte> bytes,
                                       const PutOptions& options) {
  return ask<ObjectInfo>(
      !options.if_absent, options,
      [&](store::ObjectStore& store) { return store.put(key, bytes, options); },
      [&](Link& link) -> Result<ObjectInfo> {
        RemoteUpload upload(*this, std::move(link), options);
        const auto run = [&]() -> Result<ObjectInfo> {
          PENSTOCK_TRY(upload.start(key));
          PENSTOCK_TRY(upload.write(bytes));
          return upload.finish();
        };
        Result<ObjectInfo> done = run();
        // Given back already, or of no use any more.
        link.health = upload.health() == Health::kLost ? Health::kLost : Health::kBroken;
        return done;
      });
}

Result<std::unique_ptr<store::Upload>> RemoteStore::do_start_upload(const std::string& key,
                                                                    const PutOptions& options) {
  Way way = PENSTOCK_TRY(take(options));
  if (way.local) return way.local->start_upload(key, options);
  auto upload = std::make_unique<RemoteUpload>(*this, std::move(way.link), options);
  PENSTOCK_TRY(upload->start(key));
  return std::unique_ptr<store::Upload>(std::move(upload));
}

}  // namespace

Result<std::unique_ptr<store::ObjectStore>> make_remote_store(const PenOptions& options,
                                                              control::Channel channel) {
  auto remote = std::make_unique<RemoteStore>(options);
  PENSTOCK_TRY(remote->open(std::move(channel)));
  return std::unique_ptr<store::ObjectStore>(std::move(remote));
}

}  // namespace penstock::volume
