// penstock cache warm | show | check | clear: one file each, and what they share.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/directory.h"
#include "cache/keeper.h"
#include "penstock/result.h"

namespace penstock::cli {

struct CacheArguments {
  std::string directory;
  std::vector<std::string> more_directories;  // --cache-dir
  bool json = false;
  // warm
  std::vector<std::string> sources;
  std::string quota;
  std::string floor;
  std::string window;
  std::string bandwidth;
  bool verify = false;
  // warm, check, clear
  uint32_t jobs = 0;
  // show
  bool objects = false;
  // check
  bool repair = false;
  // clear
  std::vector<std::string> clear_sources;
  std::string to;
  bool all = false;

  std::vector<std::string> directories() const;
};

int run_cache_warm(const CacheArguments& arguments);
int run_cache_show(const CacheArguments& arguments);
int run_cache_check(const CacheArguments& arguments);
int run_cache_clear(const CacheArguments& arguments);

// Says what went wrong with `penstock cache VERB`, and the exit code that fits.
int fail_cache(std::string_view verb, const Error& error);

// Prints `text` and gives `exit_code` back, or that of the failure.
int print_cache(std::string_view verb, std::string_view text, int exit_code);

// A cache that is there, for looking at it. Where there is none, says where there might be one.
Result<std::unique_ptr<cache::CacheDirectory>> open_cache(const std::string& path);
Result<std::vector<std::unique_ptr<cache::CacheDirectory>>> open_caches(
    const std::vector<std::string>& paths);

// Removes entries for a tool, so that those who use the cache know. They are told when it is
// destroyed, at the latest.
class EntryRemover {
 public:
  explicit EntryRemover(cache::CacheDirectory& directory);
  Result<void> remove(const cache::EntryName& name);
  cache::Keeper& keeper() { return *keeper_; }

 private:
  cache::CacheDirectory& directory_;
  const std::unique_ptr<cache::Keeper> keeper_;
};

}  // namespace penstock::cli
