// Numbers at the end of a text: for those that have tens of thousands of them, and are waited for.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>

namespace penstock {

inline void append_number(std::string& to, uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  to.append(digits.data(), end);
}

// Separated by commas.
inline void append_numbers(std::string& to, std::span<const uint64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) to += ',';
    append_number(to, numbers[i]);
  }
}

// All 16 digits.
inline void append_hex(std::string& to, uint64_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) to += kDigits[(number >> shift) & 15];
}

}  // namespace penstock
