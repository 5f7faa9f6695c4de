#include "store/s3_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/log.h"

namespace penstock::store {

namespace {

// Signatures hold for 15 minutes either way; less than this is not what the server minds.
constexpr int64_t kSkewWorthCorrecting_s = 60;

bool is_success(int status) {
  return status >= 200 && status < 300;
}

Nanoseconds retry_after(const HttpResponse& response) {
  const std::string_view text = response.header("retry-after");
  uint32_t seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(std::min<uint32_t>(seconds, 3600));
}

int64_t local_seconds() {
  return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
}

}  // namespace

S3Call::S3Call(S3Client& client, HttpLoop& loop, S3Request request, S3Done done)
    : client_(client),
      loop_(loop),
      request_(std::move(request)),
      done_(std::move(done)),
      begun_at_(Clock::now()) {}

void S3Call::start() {
  if (request_.call.cancel.stop_requested()) {
    return finish(make_error(ErrorCode::kCancelled, "stopped by the caller"));
  }
  if (request_.call.deadline <= Clock::now()) return on_deadline();
  if (request_.call.deadline != kNoDeadline) {
    deadline_timer_ =
        loop_.run_at(request_.call.deadline, [self = shared_from_this()] { self->on_deadline(); });
  }
  if (request_.call.cancel.stop_possible()) {
    on_cancel_.emplace(request_.call.cancel, [weak = weak_from_this(), &loop = loop_] {
      loop.post([weak] {
        if (const auto self = weak.lock()) {
          self->finish(make_error(ErrorCode::kCancelled, "stopped by the caller"));
        }
      });
    });
  }
  begin_attempt();
}

void S3Call::begin_attempt() {
  wait_timer_ = 0;
  const auto now = Clock::now();
  const auto admitted = client_.backoff_.admit(now);
  if (admitted > now) {
    wait_timer_ = loop_.run_at(admitted, [self = shared_from_this()] { self->begin_attempt(); });
    return;
  }
  ++attempts_;
  if (attempts_ > 1) client_.metrics_.retries->add();
  sent_at_ = now;
  send_first();
}

void S3Call::count_request() {
  client_.metrics_.requests[static_cast<size_t>(request_.op)]->add();
}

void S3Call::send_first() {
  if (request_.body_hash.empty()) {
    request_.body_hash = client_.hash_of(
        request_.text.empty() ? request_.body : std::as_bytes(std::span(request_.text)));
  }
  target_ = client_.target();
  clock_lead_s_ = client_.clock_lead_s_;
  HttpRequest http = client_.sign(request_, *target_, clock_lead_s_);
  if (request_.may_hedge && client_.options_.hedge_after.count() > 0) {
    http.slow_after = client_.options_.hedge_after;
    http.on_slow = [self = shared_from_this()] { self->send_hedge(); };
  }
  count_request();
  first_ = loop_.start(std::move(http), [self = shared_from_this()](Result<HttpResponse> result) {
    self->on_first(std::move(result));
  });
}

void S3Call::send_hedge() {
  if (finished_ || first_ == 0 || hedge_ != 0) return;
  hedge_bytes_.resize(request_.into.size());
  HttpRequest http = client_.sign(request_, *target_, clock_lead_s_);
  http.into = hedge_bytes_;
  http.urgent = true;
  count_request();
  client_.metrics_.hedges->add();
  hedge_ = loop_.start(std::move(http), [self = shared_from_this()](Result<HttpResponse> result) {
    self->on_hedge(std::move(result));
  });
}

bool S3Call::is_answer(const Result<HttpResponse>& result) const {
  return result.ok() && (is_success(result->status) || result->status == request_.also_accept);
}

void S3Call::on_first(Result<HttpResponse> result) {
  first_ = 0;
  if (hedge_ != 0 && !is_answer(result)) return;  // The hedge may still do better.
  loop_.cancel(std::exchange(hedge_, 0));
  judge(std::move(result));
}

void S3Call::on_hedge(Result<HttpResponse> result) {
  hedge_ = 0;
  if (!is_answer(result)) {
    if (first_ == 0) judge(std::move(result));
    return;
  }
  loop_.cancel(std::exchange(first_, 0));
  client_.metrics_.hedges_won->add();
  std::memcpy(request_.into.data(), hedge_bytes_.data(), result->bytes);
  judge(std::move(result));
}

void S3Call::judge(Result<HttpResponse> result) {
  hedge_bytes_ = {};
  if (!result.ok()) {
    history_.maybe_repeated = true;
    return retry_or_fail(std::move(result).error(), Nanoseconds(0));
  }
  if (result->new_connection) history_.maybe_repeated |= request_.method != HttpMethod::kGet;
  if (!is_answer(result)) return judge_refusal(*result);
  client_.backoff_.served(sent_at_);
  if (request_.check) {
    if (Result<void> checked = request_.check(*result); !checked.ok()) {
      return retry_or_fail(std::move(checked).error(), Nanoseconds(0));
    }
  }
  finish(std::move(result));
}

void S3Call::judge_refusal(const HttpResponse& response) {
  if (response.status >= 500) history_.maybe_repeated = true;
  if (ask_again_for_reason(response)) return send_first();
  S3Failure failure = s3_failure(response, client_.place(*target_));
  if (failure.clock_skewed && correct_clock(response, failure)) return send_first();
  if (!failure.other_region.empty() && !region_followed_ &&
      client_.move_to_region(failure.other_region)) {
    region_followed_ = true;
    return send_first();
  }
  if (failure.slow_down) {
    client_.metrics_.slow_downs->add();
    client_.backoff_.slow_down(sent_at_, Clock::now(), retry_after(response));
  }
  retry_or_fail(std::move(failure.error), retry_after(response));
}

// The answer to a HEAD has no body, so a refusal does not say why. A GET of one byte does.
bool S3Call::ask_again_for_reason(const HttpResponse& response) {
  const int status = response.status;
  if (request_.method != HttpMethod::kHead ||
      (status != 301 && status != 307 && status != 400 && status != 403)) {
    return false;
  }
  request_.method = HttpMethod::kGet;
  request_.headers.emplace_back("range", "bytes=0-0");
  return true;
}

// Learns the server's clock once per call; otherwise puts the difference into the error.
bool S3Call::correct_clock(const HttpResponse& response, S3Failure& failure) {
  const std::optional<int64_t> lead_s = server_clock_lead_s(response, local_seconds());
  if (!lead_s) return false;
  if (!clock_corrected_ && std::abs(*lead_s - clock_lead_s_) >= kSkewWorthCorrecting_s) {
    clock_corrected_ = true;
    // All calls under way find out; one says so.
    if (client_.clock_lead_s_.exchange(*lead_s) != clock_lead_s_) return true;
    log_warn("the server's clock differs; signing with its time. Set this machine's clock",
             {{"server", client_.place().endpoint}, {"finding", describe_clock(*lead_s)}});
    return true;
  }
  failure.error.detail +=
      fmt::format("; {}: set the clock (timedatectl set-ntp true)", describe_clock(*lead_s));
  return false;
}

// A wait that lasts is said aloud, by one call for all: the others fail for the same reason.
LogLevel S3Call::level_of_retry() {
  constexpr auto kLasting = std::chrono::seconds(1);
  constexpr auto kBetween = std::chrono::seconds(10);
  const auto now = Clock::now();
  if (now - begun_at_ < kLasting) return LogLevel::kDebug;
  auto last = client_.complained_at_.load();
  if (now - last < kBetween) return LogLevel::kDebug;
  return client_.complained_at_.compare_exchange_strong(last, now) ? LogLevel::kWarn
                                                                   : LogLevel::kDebug;
}

void S3Call::retry_or_fail(Error error, Nanoseconds asked_wait) {
  if (!error.retryable) return finish(std::move(error));
  if (attempts_ >= client_.options_.attempts) {
    if (attempts_ > 1) error.detail += fmt::format(" (after {} attempts)", attempts_);
    return finish(std::move(error));
  }
  const Nanoseconds wait = std::max(client_.backoff_.delay(attempts_),
                                    std::min(asked_wait, client_.options_.backoff_max));
  log_event(level_of_retry(), "S3 request failed; trying again",
            {{"request", client_.describe(request_.method, request_.key)},
             {"attempt", attempts_},
             {"reason", client_.redacted(error.detail)},
             {"wait", format_duration(wait)}});
  last_error_ = std::move(error);
  const auto at = Clock::now() + wait;
  if (at >= request_.call.deadline) return on_deadline();
  wait_timer_ = loop_.run_at(at, [self = shared_from_this()] { self->begin_attempt(); });
}

void S3Call::on_deadline() {
  deadline_timer_ = 0;
  Error error = make_error(ErrorCode::kTimeout, "the deadline passed", true);
  if (last_error_) {
    error.detail +=
        fmt::format("; the last of {} attempts failed: {}", attempts_, last_error_->detail);
  }
  finish(std::move(error));
}

void S3Call::finish(Result<HttpResponse> result) {
  if (finished_) return;
  finished_ = true;
  const auto keep = shared_from_this();  // What is cancelled below may hold the last reference.
  loop_.cancel(std::exchange(first_, 0));
  loop_.cancel(std::exchange(hedge_, 0));
  loop_.cancel_timer(std::exchange(wait_timer_, 0));
  loop_.cancel_timer(std::exchange(deadline_timer_, 0));
  on_cancel_.reset();
  request_.check = nullptr;
  const auto op = static_cast<size_t>(request_.op);
  client_.metrics_.latency[op]->record(Clock::now() - begun_at_);
  const S3Done done = std::move(done_);
  if (result.ok()) return done(std::move(result), history_);
  client_.metrics_.failures[op]->add();
  Error error = result.error().with_context(client_.describe(request_.method, request_.key));
  error.detail = client_.redacted(std::move(error.detail));
  done(std::move(error), history_);
}

}  // namespace penstock::store
