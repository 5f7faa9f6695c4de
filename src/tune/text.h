// Taking apart the small texts of /proc, /sys and /etc, and writing words that a shell, a terminal
// or fstab reads back as the same bytes.
//
// All of it reads foreign bytes: any input is allowed, and what does not parse is "nothing", never
// a crash.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::tune::doctor {

// Without blanks, newlines and NUL bytes at both ends.
std::string_view trim(std::string_view text);

// The words between blanks and newlines.
std::vector<std::string_view> split_words(std::string_view text);

// The parts between `separator`, empty ones included; one empty part for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

// The parts point into the text: one that is about to be destroyed is refused.
template <std::same_as<std::string> T>
std::vector<std::string_view> split_words(T&& text) = delete;
template <std::same_as<std::string> T>
std::vector<std::string_view> split(T&& text, char separator) = delete;

// The whole text as a number; nothing when there is anything else, or it does not fit.
std::optional<uint64_t> parse_u64(std::string_view text);
std::optional<int64_t> parse_i64(std::string_view text);

// One word for a POSIX shell or bash: as it is when harmless, quoted otherwise. Control characters
// are written as $'\n', so that a word never spans lines.
std::string shell_quote(std::string_view word);

// For terminals and comments: control characters become \xNN, so that a name from the file system
// can neither move the cursor nor end a comment line.
std::string printable(std::string_view text);

// The kernel writes blank, tab, newline and backslash in mount tables as \040 and so on.
std::string octal_unescape(std::string_view text);
std::string octal_escape(std::string_view text);

// `text_template` with every {name} that `values` has replaced. Other braces stay as they are.
using Values = std::vector<std::pair<std::string_view, std::string>>;
std::string fill_template(std::string_view text_template, const Values& values);

}  // namespace penstock::tune::doctor
