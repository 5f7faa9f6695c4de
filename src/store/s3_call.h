#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/log.h"
#include "store/s3_client.h"

namespace penstock::store {

// One request of S3Client::send() with all its attempts. It lives on one loop: every member
// function runs on that loop's thread, so there is nothing to lock.
//
// While a hedge is out there are two transfers: the first writes to the caller's memory, the hedge
// to memory of its own. The first good answer wins and the other is cancelled, which ends its
// writing; only then are the hedge's bytes copied. So there is never a second writer.
class S3Call : public std::enable_shared_from_this<S3Call> {
 public:
  S3Call(S3Client& client, HttpLoop& loop, S3Request request, S3Done done);

  void start();

 private:
  using Clock = HttpLoop::Clock;

  void begin_attempt();
  void send_first();
  void send_hedge();
  void on_first(Result<HttpResponse> result);
  void on_hedge(Result<HttpResponse> result);
  bool is_answer(const Result<HttpResponse>& result) const;
  void judge(Result<HttpResponse> result);
  void judge_refusal(const HttpResponse& response);
  bool correct_clock(const HttpResponse& response, S3Failure& failure);
  bool ask_again_for_reason(const HttpResponse& response);
  LogLevel level_of_retry();
  void retry_or_fail(Error error, Nanoseconds asked_wait);
  void on_deadline();
  void finish(Result<HttpResponse> result);
  void count_request();

  S3Client& client_;
  HttpLoop& loop_;
  S3Request request_;
  S3Done done_;
  S3History history_;
  Clock::time_point begun_at_;
  Clock::time_point sent_at_;
  uint32_t attempts_ = 0;
  // What the attempt was signed for: another call may have learned better since.
  std::shared_ptr<const S3Target> target_;
  int64_t clock_lead_s_ = 0;
  bool clock_corrected_ = false;
  bool region_followed_ = false;
  bool finished_ = false;
  std::optional<Error> last_error_;
  HttpLoop::Id first_ = 0;  // 0: not under way.
  HttpLoop::Id hedge_ = 0;
  HttpLoop::Id wait_timer_ = 0;
  HttpLoop::Id deadline_timer_ = 0;
  std::vector<std::byte> hedge_bytes_;
  std::optional<std::stop_callback<std::function<void()>>> on_cancel_;
};

}  // namespace penstock::store
