#include "cli/mount_set.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "base/thread_pool.h"
#include "cli/mount_command.h"
#include "cli/volume_command.h"

namespace penstock::cli {

namespace {

// A signal waits so long for programs to let go of the mounts: at a shutdown they were told to end
// too.
constexpr auto kBusyPatience = std::chrono::seconds(5);
// One that is unmounted already is gone within moments, unless programs still have files of it open.
constexpr auto kEndPatience = std::chrono::seconds(5);
// A version without retention goes with the next commit, unless it is held in time.
constexpr int kVersionAttempts = 5;

Error not_now() {
  return make_error(ErrorCode::kUnavailable,
                    "the process that has the volume is just starting, or about to end; try again",
                    /*retryable=*/true);
}

// The drive that the blocks lie on, unless they lie elsewhere.
std::function<std::optional<io::SpaceInfo>()> space_of(const std::string& store,
                                                       const std::string& directory) {
  if (store.starts_with("s3://")) return nullptr;
  return [directory]() -> std::optional<io::SpaceInfo> {
    const Result<io::LocalFileSystem*> fs = io::process_file_system();
    if (!fs.ok()) return std::nullopt;
    const Result<io::SpaceInfo> space = (*fs)->space(directory);
    return space.ok() ? std::optional(*space) : std::nullopt;
  };
}

}  // namespace

MountSet::MountSet(std::shared_ptr<volume::ChangeFeed> feed) : feed_(std::move(feed)) {}

MountSet::~MountSet() {
  unmount_all();
  join(entries_);
}

Result<Mounted> MountSet::begin(std::shared_ptr<volume::Host> host, std::string directory,
                                const NewMount& first) {
  {
    const std::lock_guard lock(mutex_);
    host_ = std::move(host);
    host_directory_ = std::move(directory);
    first_options_ = first.options;
    state_ = State::kFirst;
  }
  Result<Mounted> mounted = start(first, {});
  const std::lock_guard lock(mutex_);
  state_ = mounted.ok() ? State::kOpen : State::kEnded;
  return mounted;
}

Result<Mounted> MountSet::add(const NewMount& wanted, const std::stop_token& cancel) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen || stopping_) return not_now();
  }
  return start(wanted, cancel);
}

Result<Mounted> MountSet::start(const NewMount& wanted, const std::stop_token& cancel) {
  std::string name = wanted.volume;
  if (name.empty()) name = PENSTOCK_TRY(host_->volumes()).front();
  Entry& entry = *PENSTOCK_TRY(reserve(wanted, std::move(name)));
  Started started;
  std::future<Result<Mounted>> answer = started.get_future();
  {
    // The thread needs it before it can be seen to have ended.
    const std::lock_guard lock(mutex_);
    entry.thread =
        std::thread([this, &entry, wanted, cancel, started = std::move(started)]() mutable {
          run(entry, wanted, cancel, started);
        });
  }
  return answer.get();
}

Result<MountSet::Entry*> MountSet::reserve(const NewMount& wanted, std::string name) {
  auto entry = std::make_unique<Entry>();
  entry->uuid = PENSTOCK_TRY(host_->open(name))->uuid();
  entry->volume = std::move(name);
  entry->directory = wanted.directory;
  entry->live = wanted.live;
  std::unique_lock lock(mutex_);
  if (wanted.live) PENSTOCK_TRY(check_live(lock, *entry));
  const bool taken = std::ranges::any_of(entries_, [&](const auto& one) {
    return !one->ended && one->mount == nullptr && one->directory == entry->directory;
  });
  const auto there = mount_at(entry->directory);
  if (there && there->type == kMountType) return mounted_already(*there);
  if (taken) return not_now();
  // The last look: from here on serve() waits for it.
  if (state_ == State::kEnded || stopping_) return not_now();
  entries_.push_back(std::move(entry));
  return entries_.back().get();
}

// Two live mounts of a volume would not see each other's changes.
Result<void> MountSet::check_live(std::unique_lock<std::mutex>& lock, const Entry& wanted) {
  std::string in_the_way;
  const auto is_free = [&] {
    const auto found = std::ranges::find_if(entries_, [&](const auto& one) {
      return one->live && !one->ended && one->uuid == wanted.uuid;
    });
    if (found == entries_.end()) return true;
    in_the_way = (*found)->directory;
    return false;
  };
  if (is_free()) return {};
  const auto there = mount_at(in_the_way);
  if (there && there->type == kMountType) return mounted_elsewhere(wanted.volume, in_the_way);
  if (changed_.wait_for(lock, kEndPatience, is_free)) return {};
  return make_error(ErrorCode::kBusy,
                    fmt::format("{} was mounted at {}, and programs still have files of it open; "
                                "end those first",
                                wanted.volume, in_the_way));
}

void MountSet::run(Entry& entry, const NewMount& wanted, const std::stop_token& cancel,
                   Started& started) {
  set_thread_name("mount");
  const Result<Mounted> mounted = mount_one(entry, wanted, cancel);
  if (!mounted.ok()) {
    {
      // Before anybody hears of it: who tries again at once is not to find this one in the way.
      const std::lock_guard lock(mutex_);
      entry.ended = true;
    }
    changed_.notify_all();
    started.set_value(mounted);
    return;
  }
  started.set_value(mounted);
  // Only this thread sets it.
  finish(entry, entry.mount->serve());
}

Result<Mounted> MountSet::mount_one(Entry& entry, const NewMount& wanted,
                                    const std::stop_token& cancel) {
  mount::MountOptions options = wanted.options;
  options.slow_request = first_options_.slow_request;
  options.stay_awake = first_options_.stay_awake;
  const meta::Settings settings = PENSTOCK_TRY(host_->open(entry.volume))->settings();
  options.space = space_of(settings.store, host_directory_);
  options.changes = feed_;
  options.others = [this, &entry] { return all_but(entry); };
  std::shared_ptr<mount::Mount> made;
  Result<Mounted> mounted = mount_state(entry, wanted, std::move(options), made);
  if (!mounted.ok()) return mounted;
  const std::lock_guard lock(mutex_);
  // It goes as it came: nothing was asked of it yet.
  if (cancel.stop_requested()) return make_error(ErrorCode::kCancelled, "nobody waits for it");
  if (stopping_) return not_now();
  entry.mount = std::move(made);
  return mounted;
}

Result<Mounted> MountSet::mount_state(const Entry& entry, const NewMount& wanted,
                                      mount::MountOptions options,
                                      std::shared_ptr<mount::Mount>& made) {
  const int attempts = wanted.live || wanted.at ? 1 : kVersionAttempts;
  for (int attempt = 1;; ++attempt) {
    if (!wanted.live) options.version = PENSTOCK_TRY(version_at(*host_, wanted.at));
    Result<std::unique_ptr<mount::Mount>> mounted =
        mount::Mount::start(host_, entry.volume, entry.directory, options);
    if (mounted.ok()) {
      made = std::move(*mounted);
      return Mounted{entry.volume, options.version};
    }
    if (mounted.error().code != ErrorCode::kNotFound || attempt == attempts) {
      return mounted.error();
    }
  }
}

void MountSet::finish(Entry& entry, Result<void> done) {
  {
    std::shared_ptr<mount::Mount> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(entry.mount);
  }
  const Result<void> noted = note_end(entry);
  if (done.ok()) done = noted;
  const std::lock_guard lock(mutex_);
  if (first_error_.ok()) first_error_ = done;
  entry.ended = true;
  changed_.notify_all();
}

// So that whoever opens it next has nothing to repeat.
Result<void> MountSet::note_end(const Entry& entry) {
  const size_t others = all_but(entry).size();
  if (!entry.live) {
    log_info("unmounted",
             {{"volume", entry.volume}, {"directory", entry.directory}, {"others", others}});
    return {};
  }
  PENSTOCK_TRY(host_->commit());
  const volume::HostStatus status = PENSTOCK_TRY(host_->status());
  log_info("unmounted", {{"volume", entry.volume},
                         {"directory", entry.directory},
                         {"left_bytes", status.pending.content_bytes},
                         {"where", "the journal; the next mount goes on with them"},
                         {"others", others}});
  return {};
}

Result<void> MountSet::serve(const std::stop_token& stop) {
  bool ended = false;
  // Not where the signal arrives: a second one must still be able to end it all.
  std::thread closer([&] {
    set_thread_name("mount-stop");
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait(lock, stop, [&] { return ended; })) return;
    }
    unmount_all();
  });
  std::unique_lock lock(mutex_);
  while (!entries_.empty()) {
    changed_.wait(lock, [&] {
      return std::ranges::any_of(entries_, [](const auto& one) { return one->ended; });
    });
    std::vector<std::unique_ptr<Entry>> gone = take_ended();
    if (entries_.empty()) state_ = State::kEnded;
    lock.unlock();
    join(gone);
    lock.lock();
  }
  state_ = State::kEnded;
  ended = true;
  lock.unlock();
  changed_.notify_all();
  closer.join();
  return first_error_;
}

std::vector<std::unique_ptr<MountSet::Entry>> MountSet::take_ended() {
  std::vector<std::unique_ptr<Entry>> ended;
  for (auto& entry : entries_) {
    if (entry->ended) ended.push_back(std::move(entry));
  }
  std::erase(entries_, nullptr);
  return ended;
}

// The newest first: it may lie inside of one that is older.
void MountSet::unmount_all() {
  std::vector<std::shared_ptr<mount::Mount>> mounts;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& entry : entries_) {
      if (entry->mount) mounts.push_back(entry->mount);
    }
  }
  const Deadline deadline = deadline_in(kBusyPatience);
  while (!mounts.empty()) {
    const Result<void> done = mounts.back()->unmount(deadline);
    if (!done.ok()) log_error("cannot unmount", {{"error", done.error().detail}});
    mounts.pop_back();
  }
}

void MountSet::join(const std::vector<std::unique_ptr<Entry>>& ended) {
  for (const auto& entry : ended) {
    if (entry->thread.joinable()) entry->thread.join();
  }
}

std::vector<std::string> MountSet::all_but(const Entry& entry) const {
  std::vector<std::string> directories;
  const std::lock_guard lock(mutex_);
  for (const auto& one : entries_) {
    if (one.get() != &entry && one->mount) directories.push_back(one->directory);
  }
  return directories;
}

std::string MountSet::mounted_at(std::string_view volume) const {
  std::string directory;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->volume != volume || !entry->mount) continue;
    if (entry->live) return entry->directory;
    if (directory.empty()) directory = entry->directory;
  }
  return directory;
}

}  // namespace penstock::cli
