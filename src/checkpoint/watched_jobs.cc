#include "checkpoint/watched_jobs.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::checkpoint {

namespace {

constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(100);

}  // namespace

void WatchedJobs::add(std::shared_ptr<Job> job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
}

Result<void> WatchedJobs::raise_unseen() {
  std::lock_guard lock(mutex_);
  std::optional<Error> first;
  for (const auto& job : jobs_) {
    const std::optional<Error> error = job->take_unseen();
    if (!error) continue;
    first = error->with_context(fmt::format("saving step {} failed", job->report().step));
    break;
  }
  std::erase_if(jobs_, [](const auto& job) { return job->done() && !job->has_unseen(); });
  if (first) return *first;
  return {};
}

Result<void> WatchedJobs::wait_all(const std::function<bool()>& give_up) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs = jobs_;
  }
  for (const auto& job : jobs) {
    while (!job->wait_settled(give_up ? deadline_in(kLookEvery) : kNoDeadline)) {
      if (give_up())
        return make_error(ErrorCode::kCancelled, "the wait for earlier saves was ended");
    }
  }
  return {};
}

bool WatchedJobs::has_name(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      jobs_, [&](const auto& job) { return !job->is_durable() && job->options.name == name; });
}

WatchedJobs::Behind WatchedJobs::behind() const {
  std::lock_guard lock(mutex_);
  Behind behind;
  for (const auto& job : jobs_) {
    if (job->is_durable()) continue;
    ++behind.saves;
    const uint64_t bytes = job->report().bytes;
    behind.bytes += bytes - std::min<uint64_t>(bytes, job->written_bytes);
  }
  return behind;
}

}  // namespace penstock::checkpoint
