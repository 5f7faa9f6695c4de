#include "tune/bench_scratch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <climits>
#include <random>
#include <set>

#include "base/log.h"

namespace penstock::tune {

namespace {

constexpr std::string_view kPrefix = ".penstock-bench-";
constexpr std::string_view kLockSuffix = ".lock";

// Cuts the last "-WORD" off `name` where WORD has only these characters; empty when there is none.
std::string_view take_last_word(std::string_view& name, std::string_view characters) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view word = name.substr(dash + 1);
  if (word.find_first_not_of(characters) != std::string_view::npos) return {};
  name = name.substr(0, dash);
  return word;
}

// The host of a name that create() makes; empty for others: a user's file may begin in the same
// way.
std::string_view host_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  if (take_last_word(name, "0123456789abcdef").size() != 8) return {};
  if (take_last_word(name, "0123456789").empty()) return {};
  return name;
}

std::string lock_path(const std::string& path) {
  return path + std::string(kLockSuffix);
}

// The scratch names in `directory`, of this host or of the others; each once, with its lock or
// without.
Result<std::set<std::string>> scratch_names(io::FileSystem& fs, const std::string& directory,
                                            bool of_this_host) {
  const std::string this_host = bench_host_name();
  std::set<std::string> names;
  PENSTOCK_TRY(fs.list(directory, [&](const io::DirectoryEntry& entry) {
    std::string_view name = entry.name;
    if (name.ends_with(kLockSuffix)) name.remove_suffix(kLockSuffix.size());
    const std::string_view host = host_of(name);
    if (!host.empty() && (host == this_host) == of_this_host) names.emplace(name);
    return true;
  }));
  return names;
}

// Another run may clear up at the same moment.
Result<void> remove_if_there(io::FileSystem& fs, const std::string& path) {
  const Result<void> gone = fs.remove(path);
  if (!gone.ok() && gone.error().code != ErrorCode::kNotFound) return gone.error();
  return {};
}

// True when it is gone, also where another run was quicker.
bool remove_leftover(io::FileSystem& fs, const std::string& path) {
  const auto lock = fs.try_lock(lock_path(path));
  if (!lock.ok()) return false;  // Its owner lives, or it is another user's.
  Result<void> gone = io::remove_tree(fs, path);
  if (gone.ok()) gone = remove_if_there(fs, lock_path(path));
  if (gone.ok()) return true;
  if (gone.error().code == ErrorCode::kNotFound) return true;
  log_warn("could not remove the files of a bench that was killed",
           {{"path", path}, {"error", gone.error().to_string()}});
  return false;
}

}  // namespace

std::string bench_host_name() {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = name;
  for (char& c : host) {
    if (kAllowed.find(c) == std::string_view::npos) c = '_';
  }
  return host;
}

Result<std::unique_ptr<BenchScratch>> BenchScratch::create(io::FileSystem& fs,
                                                           const std::string& directory) {
  std::random_device random;
  const std::string path =
      fmt::format("{}/{}{}-{}-{:08x}", directory, kPrefix, bench_host_name(), ::getpid(), random());
  auto lock = PENSTOCK_TRY(fs.try_lock(lock_path(path)));
  std::unique_ptr<BenchScratch> scratch(new BenchScratch(fs, path, std::move(lock)));
  PENSTOCK_TRY(fs.make_directory(path, 0700));
  return scratch;
}

BenchScratch::~BenchScratch() {
  const Result<void> gone = remove();
  if (!gone.ok()) {
    log_error("could not remove the files of the bench",
              {{"path", path_}, {"error", gone.error().to_string()}});
  }
}

Result<void> BenchScratch::remove() {
  if (removed_) return {};
  PENSTOCK_TRY(io::remove_tree(fs_, path_));
  PENSTOCK_TRY(remove_if_there(fs_, lock_path(path_)));
  lock_.reset();
  removed_ = true;
  return {};
}

Result<std::vector<std::string>> remove_bench_leftovers(io::FileSystem& fs,
                                                        const std::string& directory) {
  const auto names = PENSTOCK_TRY(scratch_names(fs, directory, true));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    std::string path = directory + "/" + name;
    if (remove_leftover(fs, path)) removed.push_back(std::move(path));
  }
  if (removed.empty()) return removed;
  // Journaling file systems free blocks when the removal is on disk: until then the next question
  // for room would count them as used.
  const Result<void> synced = fs.sync_file_system(directory);
  if (!synced.ok()) {
    log_warn("could not sync after removing the files of a bench that was killed",
             {{"path", directory}, {"error", synced.error().to_string()}});
  }
  return removed;
}

Result<std::vector<std::string>> find_foreign_scratch(io::FileSystem& fs,
                                                      const std::string& directory) {
  std::vector<std::string> paths;
  for (const std::string& name : PENSTOCK_TRY(scratch_names(fs, directory, false))) {
    paths.push_back(directory + "/" + name);
  }
  return paths;
}

}  // namespace penstock::tune
