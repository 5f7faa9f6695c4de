#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "penstock/result.h"

namespace penstock::cli {

// To standard error. Where that cannot be written there is nobody left to tell, so nothing fails.
template <typename... Arguments>
void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  const std::string line = fmt::format(text, std::forward<Arguments>(arguments)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// To standard output, all of it, or why not.
Result<void> print_all(std::string_view text);

}  // namespace penstock::cli
