#include "volume/store_health.h"

#include "base/log.h"
#include "penstock/units.h"

namespace penstock::volume {

namespace {

constexpr uint32_t kLinesAtOnce = 2;
constexpr Nanoseconds kLineEvery = std::chrono::minutes(1);

}  // namespace

bool is_store_trouble(const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimeout:
    case ErrorCode::kUnavailable:
    case ErrorCode::kIo:
    case ErrorCode::kPermission:
    case ErrorCode::kNoSpace:
      return true;
    default:
      return false;
  }
}

StoreHealth::StoreHealth(const Texts& texts, std::string store, Gauge& gauge)
    : texts_(texts), store_(std::move(store)), gauge_(gauge), lines_(kLinesAtOnce, kLineEvery) {}

void StoreHealth::failed(const Error& error, std::string_view what, Clock::time_point begun) {
  uint64_t failures = 0;
  {
    const std::lock_guard lock(mutex_);
    if (begun < well_since_) return;
    if (!failing_.exchange(true)) failing_since_ = Clock::now();
    failures = ++failures_;
    gauge_.set(1);
    if (!lines_.take()) return;
    told_ = true;
  }
  log_warn(
      texts_.failing,
      {{"store", store_}, {"what", what}, {"error", error.to_string()}, {"failures", failures}});
}

void StoreHealth::recovered() {
  uint64_t failures = 0;
  Nanoseconds time{0};
  {
    const std::lock_guard lock(mutex_);
    if (!failing_.exchange(false)) return;
    gauge_.set(0);
    failures = std::exchange(failures_, 0);
    well_since_ = Clock::now();
    time = well_since_ - failing_since_;
    if (!std::exchange(told_, false)) return;
  }
  log_warn(texts_.well,
           {{"store", store_}, {"after", format_duration(time)}, {"failures", failures}});
}

}  // namespace penstock::volume
