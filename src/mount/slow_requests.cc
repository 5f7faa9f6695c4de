#include "mount/slow_requests.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "base/thread_pool.h"

namespace penstock::mount {

namespace {

constexpr Nanoseconds kLineEvery = std::chrono::seconds(10);
constexpr Nanoseconds kLookEvery = std::chrono::seconds(1);
// What is asked anew while the trouble lasts is slow again only after a while.
constexpr int kQuietThresholds = 2;

Nanoseconds effective(Nanoseconds threshold) {
  return threshold > Nanoseconds(0) ? threshold : Nanoseconds::max();
}

std::string text_of(const RequestFacts& request) {
  std::string text = fmt::format("{} of inode {}", request_name(request.opcode), request.ino);
  if (request.length > 0) {
    text += fmt::format(", {} bytes at {}", request.length, request.offset);
  }
  return text;
}

}  // namespace

SlowRequests::SlowRequests(const RequestsUnderWay& under_way, RequestMetrics& metrics,
                           const SlowRequestOptions& options)
    : under_way_(under_way),
      metrics_(metrics),
      threshold_(effective(options.threshold)),
      store_(options.store),
      lines_(1, kLineEvery) {
  const bool off = threshold_ == Nanoseconds::max();
  if (options.background && !off) watcher_ = std::thread([this] { run(); });
}

SlowRequests::~SlowRequests() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  metrics_.slow_now.set(0);
}

void SlowRequests::run() {
  set_thread_name("mount-slow");
  const Nanoseconds step =
      std::min(kLookEvery, std::max<Nanoseconds>(threshold_ / 4, Nanoseconds(1)));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, step, [this] { return stopping_; })) {
    lock.unlock();
    look(Clock::now());
    lock.lock();
  }
}

void SlowRequests::look(Clock::time_point now) {
  // Under the lock: what is seen here has not ended() yet.
  const std::lock_guard lock(mutex_);
  std::vector<RequestsUnderWay::Seen> slow = under_way_.all();
  std::erase_if(slow, [&](const auto& seen) { return now - seen.request.begun < threshold_; });
  metrics_.slow_now.set(static_cast<int64_t>(slow.size()));
  // The oldest first: it is the one to be told of.
  std::ranges::sort(slow, {}, [](const auto& seen) { return seen.request.begun; });
  const RequestsUnderWay::Seen* first_new = nullptr;
  for (const RequestsUnderWay::Seen& seen : slow) {
    const bool is_new = known_.insert(seen.request.number).second;
    if (is_new) metrics_.slow.add();
    if (is_new && first_new == nullptr) first_new = &seen;
    found_ += is_new ? 1 : 0;
    untold_ += is_new ? 1 : 0;
    longest_ = std::max<Nanoseconds>(longest_, now - seen.request.begun);
    last_ = now;
  }
  if (first_new != nullptr) tell(*first_new, now, /*answered=*/false);
  if (slow.empty()) note_quiet(now);
}

void SlowRequests::ended(const RequestFacts& request, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  longest_ = std::max<Nanoseconds>(longest_, now - request.begun);
  last_ = now;
  if (known_.erase(request.number) > 0) return;
  // Nobody looked while it was slow.
  metrics_.slow.add();
  ++found_;
  ++untold_;
  tell({request, nullptr}, now, /*answered=*/true);
}

void SlowRequests::tell(const RequestsUnderWay::Seen& seen, Clock::time_point now, bool answered) {
  if (!lines_.take(now)) return;
  const std::string time = format_duration(now - seen.request.begun);
  const uint64_t others = std::exchange(untold_, 0) - 1;
  if (answered) {
    log_warn("a request took long", {{"request", text_of(seen.request)},
                                     {"took", time},
                                     {"store", store_},
                                     {"others", others}});
    return;
  }
  const char* const waits_for = seen.waits_for != nullptr ? seen.waits_for : "not known";
  log_warn("a request takes long and is not answered yet", {{"request", text_of(seen.request)},
                                                            {"for", time},
                                                            {"waits_for", waits_for},
                                                            {"store", store_},
                                                            {"others", others}});
}

void SlowRequests::note_quiet(Clock::time_point now) {
  if (found_ == 0 || now - last_ < kQuietThresholds * threshold_) return;
  log_warn("requests are answered in time again",
           {{"slow", found_}, {"longest", format_duration(longest_)}});
  found_ = 0;
  untold_ = 0;
  longest_ = Nanoseconds(0);
}

}  // namespace penstock::mount
