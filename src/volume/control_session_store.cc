// Requests about objects.
#include <fmt/core.h>

#include <algorithm>

#include "volume/control_server.h"
#include "volume/control_session.h"

namespace penstock::volume::control {

namespace {

Error nonsense() {
  return make_error(ErrorCode::kCorrupt, "a request over the control socket that makes no sense");
}

}  // namespace

Result<store::ObjectStore*> Session::store() {
  if (store_) return store_.get();
  return make_error(ErrorCode::kInvalid, "no store was opened over this connection");
}

Result<Session::Body> Session::open_store(const Frame& frame) {
  const auto request = PENSTOCK_TRY(decode<OpenStoreRequest>(frame.body));
  store_ = PENSTOCK_TRY(server_.store_of(request));
  payload_.resize(kPayloadBytesMax);
  const store::Capabilities can = store_->capabilities();
  return encode(OpenStoreAnswer{.identity = store_->identity(),
                                .description = store_->description(),
                                .writable = can.writable,
                                .shared = can.shared});
}

Result<Session::Body> Session::store_answer(const Frame& frame) {
  if (frame.header.kind == Kind::kOpenStore) return open_store(frame);
  store::ObjectStore& store = *PENSTOCK_TRY(this->store());
  switch (frame.header.kind) {
    case Kind::kHead: {
      const auto request = PENSTOCK_TRY(decode<KeyRequest>(frame.body));
      return encode(PENSTOCK_TRY(store.head(request.key, {deadline_of(request.timeout_ns), {}})));
    }
    case Kind::kList: {
      const auto request = PENSTOCK_TRY(decode<ListRequest>(frame.body));
      store::ListOptions options;
      options.deadline = deadline_of(request.timeout_ns);
      options.prefix = request.prefix;
      options.by_folder = request.by_folder;
      options.start_after = request.start_after;
      options.limit = request.limit;
      return encode(PENSTOCK_TRY(store.list(options)));
    }
    case Kind::kRemove: {
      const auto request = PENSTOCK_TRY(decode<RemoveRequest>(frame.body));
      return encode(
          PENSTOCK_TRY(store.remove(request.keys, {deadline_of(request.timeout_ns), {}})));
    }
    case Kind::kCopy: {
      const auto request = PENSTOCK_TRY(decode<CopyRequest>(frame.body));
      return encode(PENSTOCK_TRY(
          store.copy(request.from, request.to, {deadline_of(request.timeout_ns), {}})));
    }
    case Kind::kFlush: {
      const auto request = PENSTOCK_TRY(decode<TimeoutRequest>(frame.body));
      PENSTOCK_TRY(store.flush({deadline_of(request.timeout_ns), {}}));
      return Body();
    }
    default:
      return nonsense();
  }
}

Result<void> Session::get(const Frame& frame) {
  const Result<GetRequest> request = decode<GetRequest>(frame.body);
  const Result<store::ObjectStore*> store = this->store();
  Result<store::GetResult> got = nonsense();
  if (!store.ok()) got = store.error();
  if (store.ok() && request.ok() && request->length <= payload_.size()) {
    store::GetOptions options;
    options.deadline = deadline_of(request->timeout_ns);
    options.if_match = request->if_match;
    options.bypass_cache = request->bypass_cache;
    got = (*store)->get(request->key, request->offset, std::span(payload_).first(request->length),
                        std::move(options));
  }
  if (!got.ok()) return reply(frame.header.request, got.error());
  return channel_.send(Kind::kAnswer, frame.header.request, encode(got->info),
                       std::span(payload_).first(got->bytes));
}

Result<std::unique_ptr<store::Upload>> Session::start_put(const Frame& frame) {
  auto request = PENSTOCK_TRY(decode<PutRequest>(frame.body));
  store::ObjectStore* const store = PENSTOCK_TRY(this->store());
  store::PutOptions options;
  options.deadline = deadline_of(request.timeout_ns);
  options.if_absent = request.if_absent;
  options.mtime_ns = request.mtime_ns;
  options.mode = request.mode;
  options.size = request.size;
  return store->start_upload(std::move(request.key), std::move(options));
}

// What comes after an error is read and dropped: the peer learns of it when it next looks.
Result<void> Session::put(const Frame& frame) {
  const uint64_t id = frame.header.request;
  Result<std::unique_ptr<store::Upload>> upload = start_put(frame);
  bool failed = !upload.ok();
  if (failed) PENSTOCK_TRY(reply(id, upload.error()));
  while (true) {
    const Frame next = PENSTOCK_TRY(channel_.receive(payload_, {}));
    const bool is_data = next.header.kind == Kind::kPutData;
    if (next.header.request != id || (!is_data && next.header.kind != Kind::kPutEnd)) {
      return nonsense();
    }
    if (!is_data && failed) return {};
    if (!is_data) break;
    if (failed) continue;
    const Result<void> written =
        (*upload)->write(std::span(payload_).first(next.header.payload_bytes));
    if (written.ok()) continue;
    failed = true;
    (*upload)->abort();
    PENSTOCK_TRY(reply(id, written.error()));
  }
  const Result<store::ObjectInfo> done = (*upload)->finish();
  return reply(id, done.ok() ? Result<Body>(encode(*done)) : done.error());
}

}  // namespace penstock::volume::control
