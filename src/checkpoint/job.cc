#include "checkpoint/job.h"

#include <fmt/core.h>

namespace penstock::checkpoint {

namespace {

Result<void> answer(const std::optional<Result<void>>& reached, uint64_t step,
                    std::string_view what) {
  if (reached) return *reached;
  return make_error(ErrorCode::kTimeout,
                    fmt::format("step {} is not {} yet; it goes on", step, what), true);
}

}  // namespace

Result<void> Job::durable(Deadline deadline) {
  return answer(durable_.wait(deadline), report().step, "durable");
}

Result<void> Job::replicated(Deadline deadline) {
  const std::optional<Result<void>> first = durable_.wait(deadline);
  if (!first || !first->ok()) return answer(first, report().step, "durable");
  return answer(replicated_.wait(deadline), report().step, "replicated");
}

SaveReport Job::report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

std::string Job::part() const {
  std::lock_guard lock(mutex_);
  return part_;
}

void Job::set_part(std::string text) {
  std::lock_guard lock(mutex_);
  part_ = std::move(text);
}

void Job::finish_durable(const Result<void>& result) {
  if (result.ok()) {
    change_report(
        [&](SaveReport& report) { report.durable = std::chrono::steady_clock::now() - begun; });
  } else {
    replicated_.finish(make_error(ErrorCode::kCancelled, "it was not saved"));
  }
  durable_.finish(result);
}

void Job::finish_replicated(const Result<void>& result) {
  if (result.ok()) {
    change_report(
        [&](SaveReport& report) { report.replicated = std::chrono::steady_clock::now() - begun; });
  }
  replicated_.finish(result.ok() ? result : result.error().as_outcome());
}

std::optional<Error> Job::take_unseen() {
  std::optional<Error> error = durable_.take_unseen();
  return error ? error : replicated_.take_unseen();
}

}  // namespace penstock::checkpoint
