// Structured log: one line per event, a sentence for people and fields for machines.
//
//   log_warn("io_uring is not available; using threads", {{"errno", err}, {"threads", 16}});
//
// prints, to standard error:
//
//   2026-01-31T12:00:00.123Z warn io_uring is not available; using threads errno=1 threads=16
//
// $PENSTOCK_LOG sets the least level shown (debug, info, warn, error, off; default warn) and
// $PENSTOCK_LOG_FORMAT=json prints one JSON object per line. Secrets are never passed to the log.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace penstock {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

struct LogField {
  template <typename T>
  LogField(std::string_view field_name, const T& field_value)
      : name(field_name), value(fmt::format("{}", field_value)) {}
  std::string_view name;
  std::string value;
};
using LogFields = std::initializer_list<LogField>;

// Threads: all from any thread; a line is never torn.
void log_event(LogLevel level, std::string_view message, LogFields fields = {});
inline void log_debug(std::string_view message, LogFields fields = {}) {
  log_event(LogLevel::kDebug, message, fields);
}
inline void log_info(std::string_view message, LogFields fields = {}) {
  log_event(LogLevel::kInfo, message, fields);
}
inline void log_warn(std::string_view message, LogFields fields = {}) {
  log_event(LogLevel::kWarn, message, fields);
}
inline void log_error(std::string_view message, LogFields fields = {}) {
  log_event(LogLevel::kError, message, fields);
}

// As log_event, but only the first time in this process that `key` is used: for "said once"
// notices.
void log_once(LogLevel level, std::string_view key, std::string_view message,
              LogFields fields = {});

void set_log_level(LogLevel level);
// Sends whole lines, without their newline, to `sink` instead of standard error; an empty function
// restores that.
void set_log_sink(std::function<void(std::string_view line)> sink);

bool is_utf8(std::string_view text);

// `text` as the inside of a JSON string; invalid UTF-8 becomes U+FFFD.
std::string json_escape(std::string_view text);
void append_json_escaped(std::string& to, std::string_view text);

}  // namespace penstock
