#include "cli/page_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "cli/output.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

bool same_file(const Result<io::FileInfo>& a, const Result<io::FileInfo>& b) {
  return a.ok() && b.ok() && a->inode == b->inode && a->device == b->device;
}

}  // namespace

Result<std::unique_ptr<io::LocalFileSystem>> open_plain_file_system() {
  return io::open_local_file_system({.engine = io::EngineKind::kThreads, .threads = 1});
}

Result<std::string> resolve_page_path(const std::string& given,
                                      const std::vector<std::string>& sources) {
  if (given.empty()) return given;
  std::string path = given;
  if (const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr),
                                                        std::free);
      real != nullptr) {
    path = real.get();
  }
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("--html {}: {}", tune::doctor::printable(path), why));
  };
  const auto fs = PENSTOCK_TRY(open_plain_file_system());
  const Result<io::FileInfo> there = fs->stat(path);
  if (there.ok() && there->kind != io::FileKind::kFile)
    return refuse("it is there and not a regular file");
  for (const std::string& source : sources) {
    if (same_file(there, fs->stat(source))) return refuse("that is the file to be read");
  }
  const std::string parent = io::parent_path(path);
  if (::access(parent.c_str(), W_OK) != 0) return refuse(errno_error(errno, parent).detail);
  return path;
}

Result<void> write_page(std::string_view command, const std::string& path,
                        const std::string& page) {
  if (path.empty()) return {};
  const auto fs = PENSTOCK_TRY(open_plain_file_system());
  PENSTOCK_TRY(io::write_file_durably(*fs, path, page));
  tell("penstock {}: wrote {}\n", command, tune::doctor::printable(path));
  return {};
}

}  // namespace penstock::cli
