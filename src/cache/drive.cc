#include "cache/drive.h"

#include <fmt/core.h>

#include <utility>

#include "cache/health.h"

namespace penstock::cache {

namespace {

std::string marker_path(const std::string& directory) {
  return directory + "/penstock-cache";
}

}  // namespace

DriveSlot::DriveSlot(io::FileSystem& fs, const TierOptions& options,
                     std::shared_ptr<Workers> workers, std::function<void(const Error&)> on_error)
    : fs_(fs),
      options_(options),
      workers_(std::move(workers)),
      on_error_(std::move(on_error)),
      quota_(options.keeper.quota) {}

std::shared_ptr<Drive> DriveSlot::get() const {
  std::lock_guard lock(mutex_);
  return drive_;
}

void DriveSlot::set(std::shared_ptr<Drive> drive) {
  std::lock_guard lock(mutex_);
  drive_.swap(drive);
  if (drive_ != nullptr) drive_->keeper->set_quota(quota_);
}

void DriveSlot::close() {
  set(nullptr);
}

void DriveSlot::set_quota(SizeOrPercent quota) {
  std::lock_guard lock(mutex_);
  quota_ = quota;
  if (drive_ != nullptr) drive_->keeper->set_quota(quota);
}

Result<void> DriveSlot::heal() {
  if (reopen_.exchange(false)) set(nullptr);
  const std::shared_ptr<Drive> drive = get();
  if (drive == nullptr) {
    set(PENSTOCK_TRY(open()));
    return {};
  }
  PENSTOCK_TRY(check(*drive));
  return drive->directory->probe();
}

Result<std::shared_ptr<Drive>> DriveSlot::open() {
  auto drive = std::make_unique<Drive>();
  // Once it was there it is never made again: an empty directory in its place is where a drive is
  // to be mounted.
  drive->directory =
      PENSTOCK_TRY(CacheDirectory::open(fs_, options_.path, options_.mode, opened_before_));
  drive->device = PENSTOCK_TRY(fs_.stat(marker_path(options_.path))).device;
  opened_before_ = true;
  PENSTOCK_TRY(drive->directory->probe());
  drive->keeper = start_keeper(*drive->directory);
  return Workers::share(workers_, std::move(drive));
}

std::unique_ptr<Keeper> DriveSlot::start_keeper(CacheDirectory& directory) {
  KeeperOptions options = options_.keeper;
  options.on_error = [this, theirs = options_.keeper.on_error](const Error& error) {
    if (theirs) theirs(error);
    if (!blames_drive(error)) return;
    // Its files may be on a device that is gone, although the path works again.
    reopen_ = true;
    on_error_(error);
  };
  return options_.start_keeper ? options_.start_keeper(directory, std::move(options))
                               : Keeper::start(directory, std::move(options));
}

Result<void> DriveSlot::check() {
  const std::shared_ptr<Drive> drive = get();
  return drive == nullptr ? Result<void>() : check(*drive);
}

Result<void> DriveSlot::check(const Drive& drive) {
  const Result<io::FileInfo> marker = fs_.stat(marker_path(options_.path));
  if (marker.ok() && marker->device == drive.device) return {};
  reopen_ = true;
  if (!marker.ok()) return marker.error();
  return make_error(ErrorCode::kChanged,
                    fmt::format("{} is on another file system than before", options_.path));
}

}  // namespace penstock::cache
