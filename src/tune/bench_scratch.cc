#include "tune/bench_scratch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <random>
#include <set>

#include "base/log.h"

namespace penstock::tune {

namespace {

constexpr std::string_view kPrefix = ".penstock-bench-";
constexpr std::string_view kLockSuffix = ".lock";

// Only names that create() makes: a user's file may begin in the same way.
bool is_scratch_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos || name[digits] != '-') return false;
  name.remove_prefix(digits + 1);
  return name.size() == 8 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string lock_path(const std::string& path) {
  return path + std::string(kLockSuffix);
}

}  // namespace

Result<std::unique_ptr<BenchScratch>> BenchScratch::create(io::FileSystem& fs,
                                                           const std::string& directory) {
  std::random_device random;
  const std::string path = fmt::format("{}/{}{}-{:08x}", directory, kPrefix, ::getpid(), random());
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
  PENSTOCK_TRY(fs_.remove(lock_path(path_)));
  lock_.reset();
  removed_ = true;
  return {};
}

Result<std::vector<std::string>> remove_bench_leftovers(io::FileSystem& fs,
                                                        const std::string& directory) {
  std::set<std::string> names;
  PENSTOCK_TRY(fs.list(directory, [&](const io::DirectoryEntry& entry) {
    std::string_view name = entry.name;
    if (name.ends_with(kLockSuffix)) name.remove_suffix(kLockSuffix.size());
    if (is_scratch_name(name)) names.emplace(name);
    return true;
  }));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    const auto lock = fs.try_lock(lock_path(path));
    if (!lock.ok()) continue;  // Its owner lives, or it is somebody else's.
    const Result<void> gone = io::remove_tree(fs, path);
    if (!gone.ok()) {
      log_warn("could not remove the files of a bench that was killed",
               {{"path", path}, {"error", gone.error().to_string()}});
      continue;
    }
    PENSTOCK_TRY(fs.remove(lock_path(path)));
    removed.push_back(path);
  }
  return removed;
}

}  // namespace penstock::tune
