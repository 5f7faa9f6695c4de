#include "cli/output.h"

#include <cerrno>

namespace penstock::cli {

Result<void> print_all(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return {};
  return errno_error(errno, "write to standard output");
}

}  // namespace penstock::cli
