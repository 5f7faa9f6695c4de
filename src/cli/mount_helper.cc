#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/mount_command.h"

namespace penstock::cli {

namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// At boot nothing says where the home directory is.
void know_home() {
  const passwd* const user = ::getpwuid(::geteuid());
  if (user != nullptr && user->pw_dir != nullptr) ::setenv("HOME", user->pw_dir, /*replace=*/0);
}

}  // namespace

std::optional<std::vector<std::string>> mount_call(const std::vector<std::string>& words,
                                                   bool first_is_command) {
  if (words.empty()) return std::nullopt;
  const std::string_view program = base_name(words[0]);
  const bool helper = program == "mount.penstock" || program == "mount.fuse.penstock";
  const bool by_fuse =
      !first_is_command && words.size() >= 5 && !words[1].starts_with('-') && words[3] == "-o";
  if (!helper && !by_fuse) return std::nullopt;
  know_home();
  std::vector<std::string> call = {"penstock", "mount"};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-o" && i + 1 < words.size()) {
      call.push_back(word);
      call.push_back(words[++i]);
    } else if ((word == "-t" || word == "-N") && i + 1 < words.size()) {
      ++i;
    } else if (word.size() > 1 && word[0] == '-' && word != "--help" && word != "--version") {
      // -s -f -n -v: how mount(8) goes about it.
      if (word.find('f') != std::string::npos && word[1] != '-') return std::vector<std::string>{};
    } else {
      call.push_back(word);
    }
  }
  return call;
}

}  // namespace penstock::cli
