#include "tune/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace penstock::tune::doctor {

namespace {

constexpr std::string_view kBlank(" \t\r\n\0", 5);

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool is_harmless_in_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

}  // namespace

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kBlank); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlank, end);
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::optional<uint64_t> parse_u64(std::string_view text) {
  return parse_whole<uint64_t>(text);
}

std::optional<int64_t> parse_i64(std::string_view text) {
  return parse_whole<int64_t>(text);
}

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_harmless_in_shell))
    return std::string(word);
  const bool has_control = std::any_of(word.begin(), word.end(), is_control);
  std::string quoted = has_control ? "$'" : "'";
  for (const char c : word) {
    if (has_control && is_control(c)) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (has_control && (c == '\'' || c == '\\')) {
      quoted += {'\\', c};
    } else if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (is_control(c)) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string octal_unescape(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1).substr(0, 3);
    if (text[i] == '\\' && digits.size() == 3 && digits[0] <= '3' &&
        std::all_of(digits.begin(), digits.end(), is_octal)) {
      bytes += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0');
      i += 3;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

std::string octal_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (is_control(c) || c == ' ' || c == '\\' || c == '#') {
      escaped += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string fill_template(std::string_view text_template, const Values& values) {
  std::string filled;
  for (size_t i = 0; i < text_template.size();) {
    const size_t close = text_template[i] == '{' ? text_template.find('}', i) : std::string::npos;
    const std::string_view name =
        close == std::string::npos ? "" : text_template.substr(i + 1, close - i - 1);
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (close != std::string::npos && value != values.end()) {
      filled += value->second;
      i = close + 1;
    } else {
      filled += text_template[i++];
    }
  }
  return filled;
}

}  // namespace penstock::tune::doctor
