// The lines of the log at warn and above, while it lives: for tests.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace penstock::volume {

class LogLines {
 public:
  LogLines() {
    set_log_sink([this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~LogLines() { set_log_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> get() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // The first with that in it; empty where there is none.
  std::string with(std::string_view text) const {
    for (const std::string& line : get()) {
      if (line.find(text) != std::string::npos) return line;
    }
    return {};
  }
  size_t count(std::string_view text) const {
    const std::vector<std::string> all = get();
    return static_cast<size_t>(std::ranges::count_if(
        all, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace penstock::volume
