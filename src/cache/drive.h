#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "cache/directory.h"
#include "cache/keeper.h"
#include "cache/tier.h"
#include "cache/workers.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

// An opened cache directory and its keeper.
struct Drive {
  std::unique_ptr<CacheDirectory> directory;
  uint64_t device = 0;  // The file system on which it was opened.
  std::unique_ptr<Keeper> keeper;
};

// A tier's drive, opened when it can be, and opened anew when it is another one than before.
// Threads: get() from any; heal() and check() one at a time.
class DriveSlot {
 public:
  // `on_error`: the keeper had one, on its thread. `workers` destroys drives: both may block.
  DriveSlot(io::FileSystem& fs, const TierOptions& options, std::shared_ptr<Workers> workers,
            std::function<void(const Error&)> on_error);

  std::shared_ptr<Drive> get() const;  // Null when it is not open.

  // Opens it, if that is needed, and tries it.
  Result<void> heal();
  // Whether the directory is still the one that was opened: where a drive was unmounted, fills
  // would otherwise go to the file system below.
  Result<void> check();
  void close();
  void set_quota(SizeOrPercent quota);  // Of this keeper and those to come.

 private:
  Result<std::shared_ptr<Drive>> open();
  std::unique_ptr<Keeper> start_keeper(CacheDirectory& directory);
  Result<void> check(const Drive& drive);
  void set(std::shared_ptr<Drive> drive);

  io::FileSystem& fs_;
  const TierOptions& options_;
  const std::shared_ptr<Workers> workers_;
  const std::function<void(const Error&)> on_error_;
  mutable std::mutex mutex_;
  std::shared_ptr<Drive> drive_;
  SizeOrPercent quota_;
  bool opened_before_ = false;
  std::atomic<bool> reopen_ = false;
};

}  // namespace penstock::cache
