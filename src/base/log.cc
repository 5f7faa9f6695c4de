#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

namespace penstock {

namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

struct LogState {
  std::atomic<LogLevel> level{LogLevel::kWarn};
  bool json = false;
  std::mutex mutex;
  std::function<void(std::string_view)> sink;
  std::set<std::string, std::less<>> said;

  LogState() {
    if (const char* wanted = std::getenv("PENSTOCK_LOG")) set_level(wanted);
    const char* format = std::getenv("PENSTOCK_LOG_FORMAT");
    json = format != nullptr && std::string_view(format) == "json";
  }

  void set_level(std::string_view wanted) {
    for (size_t i = 0; i < kLevelNames.size(); ++i) {
      if (kLevelNames[i] == wanted) level = static_cast<LogLevel>(i);
    }
  }
};

LogState& state() {
  static auto* log = new LogState;  // Never destroyed: threads may log while the process exits.
  return *log;
}

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

std::string as_text(LogLevel level, std::string_view message, LogFields fields) {
  std::string line =
      fmt::format("{} {} {}", timestamp(), kLevelNames[static_cast<size_t>(level)], message);
  for (const LogField& field : fields) {
    const bool quote =
        field.value.find_first_of(" \"\n=") != std::string::npos || field.value.empty();
    line += quote ? fmt::format(" {}=\"{}\"", field.name, json_escape(field.value))
                  : fmt::format(" {}={}", field.name, field.value);
  }
  return line;
}

std::string as_json(LogLevel level, std::string_view message, LogFields fields) {
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":"{}")", timestamp(),
                                 kLevelNames[static_cast<size_t>(level)], json_escape(message));
  for (const LogField& field : fields) {
    line += fmt::format(R"(,"{}":"{}")", json_escape(field.name), json_escape(field.value));
  }
  return line + "}";
}

// The length of the valid UTF-8 sequence at the front of `text`; 0 when there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) length = 2;
  if (first >= 0xE0 && first < 0xF0) length = 3;
  if (first >= 0xF0 && first < 0xF5) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;   // Overlong.
  if (first == 0xED && byte(1) >= 0xA0) return 0;  // Surrogate.
  if (first == 0xF0 && byte(1) < 0x90) return 0;   // Overlong.
  if (first == 0xF4 && byte(1) >= 0x90) return 0;  // Above U+10FFFF.
  return length;
}

bool is_plain(char c) {
  return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

// Whether each of eight characters is plain: a bit trick for each way of not being so, which may take
// a plain one for another, but never the other way round.
bool are_plain(uint64_t eight) {
  constexpr uint64_t kOnes = ~uint64_t{0} / 255;
  constexpr uint64_t kHigh = kOnes * 0x80;
  const auto has_zero = [](uint64_t x) { return (x - kOnes) & ~x; };
  const uint64_t below_space = eight - kOnes * 0x20;
  const uint64_t above_tilde = eight + kOnes;  // Of 0x7F and more.
  const uint64_t odd = eight | below_space | above_tilde | has_zero(eight ^ (kOnes * '"')) |
                       has_zero(eight ^ (kOnes * '\\'));
  return (odd & kHigh) == 0;
}

// How many characters at the front of it mean themselves in JSON.
size_t plain_length(std::string_view text) {
  size_t plain = 0;
  for (uint64_t eight = 0; plain + sizeof eight <= text.size(); plain += sizeof eight) {
    std::memcpy(&eight, text.data() + plain, sizeof eight);
    if (!are_plain(eight)) break;
  }
  while (plain < text.size() && is_plain(text[plain])) ++plain;
  return plain;
}

}  // namespace

bool is_utf8(std::string_view text) {
  text.remove_prefix(plain_length(text));
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string json_escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  append_json_escaped(escaped, text);
  return escaped;
}

void append_json_escaped(std::string& to, std::string_view text) {
  while (true) {
    // Most text is plain, and goes as a whole.
    const size_t plain = plain_length(text);
    to.append(text, 0, plain);
    text.remove_prefix(plain);
    if (text.empty()) return;
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      to += {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      to += "\\n";
    } else if (c == '\t') {
      to += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      to += fmt::format("\\u{:04x}", c);
    } else if (length == 0) {
      to += "\xEF\xBF\xBD";
    } else {
      to.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

void log_event(LogLevel level, std::string_view message, LogFields fields) {
  LogState& log = state();
  if (level < log.level.load(std::memory_order_relaxed)) return;
  std::string line = log.json ? as_json(level, message, fields) : as_text(level, message, fields);
  std::lock_guard lock(log.mutex);
  if (log.sink) {
    log.sink(line);
    return;
  }
  line += '\n';
  // One write per line, so that lines of several processes do not mix. There is nowhere to report
  // its failure.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_once(LogLevel level, std::string_view key, std::string_view message, LogFields fields) {
  LogState& log = state();
  {
    std::lock_guard lock(log.mutex);
    if (!log.said.emplace(key).second) return;
  }
  log_event(level, message, fields);
}

void set_log_level(LogLevel level) {
  state().level = level;
}

void set_log_sink(std::function<void(std::string_view)> sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

}  // namespace penstock
