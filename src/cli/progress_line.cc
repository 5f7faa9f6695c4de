#include "cli/progress_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include "cli/output.h"

namespace penstock::cli {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kMeterSpan = 10s;
constexpr auto kMeterStep = 200ms;

}  // namespace

void RateMeter::add(uint64_t total, Deadline now) {
  if (!samples_.empty() && now - samples_.back().at < kMeterStep && samples_.size() > 1) {
    samples_.back().total = total;
    return;
  }
  samples_.push_back({now, total});
  while (samples_.size() > 2 && now - samples_[1].at > kMeterSpan) samples_.pop_front();
}

double RateMeter::per_second() const {
  if (samples_.size() < 2) return 0;
  const double seconds =
      std::chrono::duration<double>(samples_.back().at - samples_.front().at).count();
  const uint64_t more = samples_.back().total - samples_.front().total;
  return seconds > 0 ? static_cast<double>(more) / seconds : 0;
}

std::optional<Nanoseconds> RateMeter::time_for(uint64_t rest) const {
  constexpr double kLongest = 1e8;  // Seconds; three years are as good as never.
  const double rate = per_second();
  if (rate <= 0 || static_cast<double>(rest) / rate > kLongest) return std::nullopt;
  return std::chrono::seconds(static_cast<int64_t>(static_cast<double>(rest) / rate + 0.5));
}

ProgressLine::ProgressLine(std::string command)
    : command_(std::move(command)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      every_(terminal_ ? Clock::duration(200ms) : Clock::duration(30s)),
      next_(Clock::now() + every_) {}

bool ProgressLine::due() const {
  return Clock::now() >= next_;
}

void ProgressLine::show(const std::string& text) {
  if (!due()) return;
  next_ = Clock::now() + every_;
  if (terminal_) {
    tell("\r{}\033[K", text);
    shown_ = true;
  } else {
    tell("{}: {}\n", command_, text);
  }
}

void ProgressLine::clear() {
  if (shown_) tell("\r\033[K");
  shown_ = false;
}

std::string counted(uint64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", group_digits(number), number == 1 ? one : many);
}

std::string group_digits(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part < whole && percent >= 99.95) return "99.9 %";
  return percent < 10 && percent > 0 ? fmt::format("{:.1f} %", percent)
                                     : fmt::format("{:.0f} %", percent);
}

}  // namespace penstock::cli
