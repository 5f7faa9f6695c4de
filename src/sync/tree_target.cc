#include "sync/tree_target.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "store/random_number.h"
#include "store/tree_files.h"

namespace penstock::sync {

namespace {

constexpr size_t kNameBytesMax = 255;
constexpr auto kOldAge = std::chrono::hours(24);
constexpr size_t kKnownMax = 16384;
constexpr size_t kLateModesMax = 65536;
constexpr uint32_t kOwnerAll = 0700;
// A time that no coarse clock keeps: each digit tells one step.
constexpr int64_t kOddTime = 1'000'000'001'123'456'789;

std::string_view folder_of(std::string_view key) {
  return key.substr(0, key.rfind('/') + 1);  // npos + 1 is 0.
}

std::string_view without_slash(std::string_view folder) {
  return folder.ends_with('/') ? folder.substr(0, folder.size() - 1) : folder;
}

bool is_missing(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.os_errno == ENAMETOOLONG;
}

int64_t step_of(int64_t kept) {
  for (int64_t step = 1; step < 1'000'000'000; step *= 10) {
    if (kept / step == kOddTime / step) return step;
  }
  return 2'000'000'000;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

}  // namespace

TreeTarget::TreeTarget(io::FileSystem& fs, std::string directory, Settings settings)
    : fs_(fs),
      directory_(std::move(directory)),
      settings_(std::move(settings)),
      number_(store::random_number()) {}

TreeTarget::~TreeTarget() {
  (void)restore_modes();  // Of a run that ended early; who finished has none left.
}

std::string TreeTarget::path_of(std::string_view key) const {
  key = without_slash(key);
  return key.empty() ? directory_ : fmt::format("{}/{}", directory_ == "/" ? "" : directory_, key);
}

Result<void> TreeTarget::check_name(std::string_view key) {
  PENSTOCK_TRY(store::check_key(key));
  for (size_t begin = 0; begin < key.size();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.size() > kNameBytesMax || part.starts_with(store::kTreeTemporaryPrefix)) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("'{}' cannot be a path: its parts are file names of up to {} "
                                    "bytes that do not begin with {}",
                                    key, kNameBytesMax, store::kTreeTemporaryPrefix));
    }
    begin = end + 1;
  }
  return {};
}

Error TreeTarget::in_the_way(std::string_view key, std::string_view what) const {
  return make_error(ErrorCode::kExists,
                    fmt::format("{} is {}, and in the way", path_of(key), what));
}

Result<std::optional<io::FileInfo>> TreeTarget::look(std::string_view key) const {
  Result<io::FileInfo> info = fs_.stat_link(path_of(key));
  if (info.ok()) return std::optional(*info);
  if (is_missing(info.error())) return std::optional<io::FileInfo>();
  return std::move(info).error();
}

Result<void> TreeTarget::prepare() {
  const Result<io::FileInfo> there = fs_.stat(directory_);
  if (!there.ok()) {
    if (!is_missing(there.error())) return there.error();
    PENSTOCK_TRY(io::make_directories(fs_, directory_));
    std::optional<uint32_t> mode;
    if (settings_.mode_of_folder) mode = settings_.mode_of_folder("");
    PENSTOCK_TRY(dress_folder("", mode));
  }
  return probe();
}

Result<void> TreeTarget::probe() {
  const std::string path = temporary_path("");
  const std::unique_ptr<StagedFile> file =
      PENSTOCK_TRY(write_in("", [&] { return StagedFile::create(fs_, path, path, 0600); }));
  PENSTOCK_TRY(file->finish(0, std::nullopt, kOddTime, /*sync=*/false));
  const io::FileInfo info = PENSTOCK_TRY(fs_.stat_link(path));
  time_step_ns_ = step_of(info.mtime_ns);
  const size_t name = path.rfind('/') + 1;
  folds_case_ = fs_.stat_link(path.substr(0, name) + upper_case(path.substr(name))).ok();
  return {};
}

std::string TreeTarget::temporary_path(std::string_view folder) {
  return path_of(
      fmt::format("{}{}{:016x}-{}", folder, store::kTreeTemporaryPrefix, number_, ++counter_));
}

bool TreeTarget::is_known(std::string_view folder) {
  std::lock_guard lock(mutex_);
  return known_.contains(std::string(folder));
}

void TreeTarget::know(std::string folder) {
  std::lock_guard lock(mutex_);
  if (known_.size() >= kKnownMax) known_.clear();
  known_.insert(std::move(folder));
}

Result<void> TreeTarget::make_one(std::string_view folder) {
  const std::string name(without_slash(folder));
  const std::optional<io::FileInfo> there = PENSTOCK_TRY(look(name));
  if (there && there->kind == io::FileKind::kDirectory) return {};
  if (there) {
    return in_the_way(name, there->kind == io::FileKind::kSymlink ? "a symbolic link" : "a file");
  }
  std::optional<uint32_t> mode;
  if (settings_.mode_of_folder) mode = settings_.mode_of_folder(name);
  const Result<void> made = write_in(
      folder_of(name), [&] { return fs_.make_directory(path_of(name), mode ? kOwnerAll : 0755); });
  // Another thread may have been quicker, or somebody else.
  if (!made.ok() && made.error().code == ErrorCode::kExists) return make_one(folder);
  if (!made.ok()) return made;
  return dress_folder(name, mode);
}

// What a new directory gets.
Result<void> TreeTarget::dress_folder(const std::string& name, std::optional<uint32_t> mode) {
  changed_ = true;
  if (mode) PENSTOCK_TRY(set_folder_mode(name, *mode));
  if (settings_.on_directory) settings_.on_directory(name);
  return {};
}

Result<void> TreeTarget::make_folder(std::string_view folder) {
  if (folder.empty() || is_known(folder)) return {};
  PENSTOCK_TRY(check_name(without_slash(folder)));
  std::unique_lock alone(make_mutex_, std::defer_lock);
  if (settings_.on_directory) alone.lock();
  for (size_t slash = folder.find('/'); slash != std::string_view::npos;
       slash = folder.find('/', slash + 1)) {
    const std::string_view at = folder.substr(0, slash + 1);
    if (is_known(at)) continue;
    PENSTOCK_TRY(make_one(at));
    know(std::string(at));
  }
  return {};
}

Result<void> TreeTarget::set_folder_mode(std::string_view folder, uint32_t mode) {
  mode &= kModeBits;
  // One that we could not write to ourselves gets it last.
  if ((mode & kOwnerAll) != kOwnerAll) PENSTOCK_TRY(keep_for_last(folder, mode));
  const std::unique_ptr<io::File> directory =
      PENSTOCK_TRY(fs_.open(path_of(folder), {.follow_links = false}));
  changed_ = true;
  return directory->set_attributes(mode | kOwnerAll, std::nullopt);
}

Result<void> TreeTarget::keep_for_last(std::string_view folder, uint32_t mode) {
  std::lock_guard lock(mutex_);
  if (late_modes_.size() < kLateModesMax) {
    late_modes_[std::string(without_slash(folder))] = mode;
    return {};
  }
  return make_error(ErrorCode::kNoMemory,
                    fmt::format("{}: there are more than {} directories that their owner may "
                                "not write to",
                                path_of(folder), kLateModesMax));
}

// Does what writes into `folder`. Where modes are kept, an earlier run may have made it one that its
// owner cannot write to.
template <typename Attempt>
auto TreeTarget::write_in(std::string_view folder, const Attempt& attempt) -> decltype(attempt()) {
  auto done = attempt();
  const bool may_be_closed =
      settings_.mode_of_folder && !done.ok() && done.error().code == ErrorCode::kPermission;
  if (!may_be_closed || !open_up(folder).ok()) return done;
  return attempt();
}

// Until the end: then it gets its mode back.
Result<void> TreeTarget::open_up(std::string_view folder) {
  const io::FileInfo info = PENSTOCK_TRY(fs_.stat_link(path_of(folder)));
  const bool is_open = (info.mode & kOwnerAll) == kOwnerAll;  // Another thread was quicker.
  if (is_open || info.kind != io::FileKind::kDirectory) return {};
  const std::unique_ptr<io::File> directory =
      PENSTOCK_TRY(fs_.open(path_of(folder), {.follow_links = false}));
  PENSTOCK_TRY(keep_for_last(folder, info.mode));
  changed_ = true;
  return directory->set_attributes(info.mode | kOwnerAll, std::nullopt);
}

Result<std::unique_ptr<StagedFile>> TreeTarget::start(const std::string& key, bool has_mode) {
  PENSTOCK_TRY(check_name(key));
  PENSTOCK_TRY(make_folder(folder_of(key)));
  changed_ = true;
  return write_in(folder_of(key), [&] {
    return StagedFile::create(fs_, temporary_path(folder_of(key)), path_of(key),
                              has_mode ? 0600 : 0644);
  });
}

Result<std::unique_ptr<StagedFile>> TreeTarget::start_link(const std::string& key,
                                                           const std::string& leads_to) {
  PENSTOCK_TRY(check_name(key));
  PENSTOCK_TRY(make_folder(folder_of(key)));
  changed_ = true;
  return write_in(folder_of(key), [&] {
    return StagedFile::create_link(fs_, temporary_path(folder_of(key)), path_of(key), leads_to);
  });
}

Result<void> TreeTarget::set_attributes(const std::string& key, std::optional<uint32_t> mode,
                                        std::optional<int64_t> mtime_ns) {
  const std::unique_ptr<io::File> file =
      PENSTOCK_TRY(fs_.open(path_of(key), {.follow_links = false}));
  changed_ = true;
  if (mode) *mode &= kModeBits;
  return file->set_attributes(mode, mtime_ns);
}

Result<void> TreeTarget::remove(const std::string& key) {
  const Result<void> removed = write_in(folder_of(key), [&] { return fs_.remove(path_of(key)); });
  changed_ = true;
  if (!removed.ok() && is_missing(removed.error())) return {};
  return removed;
}

Result<bool> TreeTarget::remove_folder(std::string_view folder) {
  {
    std::lock_guard lock(mutex_);
    known_.clear();  // Those below it, too.
  }
  const Result<void> removed = write_in(folder_of(without_slash(folder)),
                                        [&] { return fs_.remove_directory(path_of(folder)); });
  if (removed.ok()) changed_ = true;
  if (removed.ok() || is_missing(removed.error())) return true;
  if (removed.error().code == ErrorCode::kExists) return false;
  return removed.error();
}

void TreeTarget::remove_if_old(const std::string& key) {
  const std::string path = path_of(key);
  const Result<io::FileInfo> info = fs_.stat_link(path);
  // Not by the time of change, which is that of the source once the file is whole.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (!info.ok() || info->ctime_ns > std::chrono::nanoseconds(now - kOldAge).count()) return;
  // Whether that works or not: it is in nobody's way.
  if (fs_.remove(path).ok()) changed_ = true;
}

Result<void> TreeTarget::restore_modes() {
  std::lock_guard lock(mutex_);
  Result<void> first;
  // From the deepest: once a directory may not be entered, those below cannot be reached.
  for (auto late = late_modes_.rbegin(); late != late_modes_.rend(); ++late) {
    const auto& [folder, mode] = *late;
    const Result<std::unique_ptr<io::File>> directory =
        fs_.open(path_of(folder), {.follow_links = false});
    if (!directory.ok() && is_missing(directory.error())) continue;
    const Result<void> set = directory.ok() ? (*directory)->set_attributes(mode, std::nullopt)
                                            : Result<void>(directory.error());
    if (!set.ok() && first.ok()) first = set;
  }
  late_modes_.clear();
  return first;
}

Result<void> TreeTarget::finish(bool durable) {
  PENSTOCK_TRY(restore_modes());
  if (!durable || !changed_.exchange(false)) return {};
  return fs_.sync_file_system(directory_);
}

}  // namespace penstock::sync
