#include "volume/control_call.h"

#include <algorithm>

namespace penstock::volume::control {

namespace {

// The error of a connection that has one.
Error failed(Link& link, const Error& error) {
  link.health = error.code == ErrorCode::kUnavailable ? Health::kLost : Health::kBroken;
  return error;
}

}  // namespace

int64_t timeout_of(Deadline deadline) {
  if (deadline == kNoDeadline) return kNoTimeout;
  const Nanoseconds left = deadline - std::chrono::steady_clock::now();
  return std::max<int64_t>(left.count(), 0);
}

Result<void> send_request(Link& link, Kind kind, std::span<const std::byte> body,
                          std::span<const std::byte> payload) {
  const Result<void> sent = link.channel.send(kind, link.last_request, body, payload);
  if (sent.ok()) return {};
  return failed(link, sent.error());
}

Result<Answer> await_answer(Link& link, std::span<std::byte> payload, const Patience& patience,
                            const OnNews& on_news) {
  while (true) {
    Result<Frame> frame = link.channel.receive(payload, patience);
    if (!frame.ok()) return failed(link, frame.error());
    const Header& header = frame->header;
    // Somebody who is not let in gets an error before it has asked for anything.
    const bool is_mine = header.request == link.last_request;
    if (header.kind == Kind::kError && (is_mine || header.request == 0)) {
      if (!is_mine) link.health = Health::kBroken;
      return decode_error(frame->body);
    }
    if (is_mine && header.kind == Kind::kAnswer) {
      return Answer{std::move(frame->body), header.payload_bytes};
    }
    const bool is_news = header.kind == Kind::kProgress || header.kind == Kind::kFindings;
    if (!is_mine || !is_news) {
      return failed(link, make_error(ErrorCode::kCorrupt,
                                     "an answer over the control socket to what was not asked"));
    }
    const Result<void> taken = on_news ? on_news(*frame) : Result<void>();
    if (!taken.ok()) return failed(link, taken.error());
  }
}

Result<Answer> call(Link& link, Kind kind, std::span<const std::byte> body,
                    const Patience& patience, std::span<std::byte> payload, const OnNews& on_news) {
  ++link.last_request;
  PENSTOCK_TRY(send_request(link, kind, body));
  return await_answer(link, payload, patience, on_news);
}

}  // namespace penstock::volume::control
