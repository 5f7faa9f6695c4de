#include "sync/stripe.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

extern char** environ;  // NOLINT: POSIX wants it declared by hand

namespace penstock::sync {

namespace {

constexpr int64_t kStripesMax = 2000;

// The child starts with the usual signal handling: ours blocks and ignores some.
void reset_signals(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigemptyset(&none);
  sigset_t ignored;
  sigemptyset(&ignored);
  sigaddset(&ignored, SIGPIPE);
  sigaddset(&ignored, SIGXFSZ);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &ignored);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  reset_signals(attributes);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, words[0].c_str(), nullptr, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return errno_error(failed, fmt::format("run {}", words[0]));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno_error(errno, fmt::format("wait for {}", words[0]));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string find_program(std::string_view name, std::string_view path_list) {
  while (!path_list.empty()) {
    const size_t colon = std::min(path_list.find(':'), path_list.size());
    const std::string path = fmt::format("{}/{}", path_list.substr(0, colon), name);
    if (colon > 0 && ::access(path.c_str(), X_OK) == 0) return path;
    path_list.remove_prefix(std::min(colon + 1, path_list.size()));
  }
  return "";
}

Result<Striper> Striper::create(int64_t stripes, std::string_view target,
                                std::string_view file_system_type, std::string lfs, Runner runner) {
  if (stripes != -1 && (stripes < 1 || stripes > kStripesMax)) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("a file has 1 to {} stripes, or -1 for all there are, not {}",
                                  kStripesMax, stripes));
  }
  if (file_system_type != "lustre") {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("{} is on {}: only Lustre stripes files", target,
                    file_system_type.empty() ? "no local file system" : file_system_type));
  }
  if (lfs.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "striping needs Lustre's tool lfs, which is not in $PATH");
  }
  return Striper(stripes, std::move(lfs), std::move(runner));
}

Result<void> Striper::apply(const std::string& directory) const {
  const int status =
      PENSTOCK_TRY(runner_({lfs_, "setstripe", "-c", std::to_string(stripes_), "--", directory}));
  if (status == 0) return {};
  return make_error(ErrorCode::kIo, fmt::format("lfs setstripe -c {} {} failed with status {}",
                                                stripes_, directory, status));
}

}  // namespace penstock::sync
