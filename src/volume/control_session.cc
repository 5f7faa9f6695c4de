#include "volume/control_session.h"

#include <fmt/core.h>

#include "volume/control_server.h"

namespace penstock::volume::control {

namespace {

bool is_about_objects(Kind kind) {
  return kind >= Kind::kOpenStore && kind <= Kind::kPutEnd;
}

// How it would look from the other end if this process were gone already.
Error ending() {
  return make_error(ErrorCode::kUnavailable,
                    "the process that has the volume is about to end; try again",
                    /*retryable=*/true);
}

}  // namespace

Deadline deadline_of(int64_t timeout_ns) {
  return timeout_ns < 0 ? kNoDeadline : deadline_in(Nanoseconds(timeout_ns));
}

void Session::run() {
  while (!server_.stopping()) {
    const Result<Frame> frame = channel_.receive({}, {});
    if (!frame.ok()) {
      // Who speaks another version, or nonsense, is told so, if it still listens.
      const ErrorCode code = frame.error().code;
      if (code == ErrorCode::kUnsupported || code == ErrorCode::kCorrupt) {
        (void)channel_.send(Kind::kError, 0, encode_error(frame.error()));
      }
      return;
    }
    if (!handle(*frame).ok()) return;
  }
}

Result<void> Session::handle(const Frame& frame) {
  if (frame.header.kind == Kind::kGet) return get(frame);
  if (frame.header.kind == Kind::kPut) return put(frame);
  const Result<Body> answer = answer_to(frame);
  const bool cut_short = !answer.ok() && answer.error().code == ErrorCode::kCancelled;
  if (cut_short && server_.stopping()) return reply(frame.header.request, ending());
  return reply(frame.header.request, answer);
}

Result<Session::Body> Session::answer_to(const Frame& frame) {
  if (is_about_objects(frame.header.kind)) return store_answer(frame);
  return admin_answer(frame);
}

Result<void> Session::reply(uint64_t request, const Result<Body>& answer) {
  if (!answer.ok()) return channel_.send(Kind::kError, request, encode_error(answer.error()));
  if (answer->size() > kBodyBytesMax) {
    return channel_.send(Kind::kError, request,
                         encode_error(make_error(ErrorCode::kNoMemory, "the answer is too long")));
  }
  return channel_.send(Kind::kAnswer, request, *answer);
}

}  // namespace penstock::volume::control
