// What an evictor reads and writes besides the entries: the state, the index; and the scan.
#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "cache/directory_open.h"
#include "cache/evictor.h"

namespace penstock::cache {

namespace {

using std::chrono::steady_clock;

}  // namespace

std::string state_path(const CacheDirectory& directory) {
  return directory.path() + "/state";
}
std::string index_path(const CacheDirectory& directory) {
  return directory.path() + "/index";
}
std::string evictor_lock_path(const CacheDirectory& directory) {
  return directory.path() + "/evictor.lock";
}

Result<std::unique_ptr<io::FileLock>> lock_evictor(const CacheDirectory& directory) {
  io::FileSystem& fs = directory.file_system();
  const std::string path = evictor_lock_path(directory);
  std::unique_ptr<io::FileLock> lock = PENSTOCK_TRY(fs.try_lock(path));
  const std::string members = fmt::format("{}/{}", directory.path(), kMembersName);
  const Result<io::FileInfo> there = fs.stat(members);
  if (there.ok()) return lock;
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  (void)fs.remove(path);
  return make_error(ErrorCode::kIo, fmt::format("{} is gone", members), true);
}

Result<void> Evictor::read_index() {
  const std::unique_ptr<io::File> file =
      PENSTOCK_TRY(directory_.file_system().open(index_path(directory_), {.plain_only = true}));
  const io::FileInfo info = PENSTOCK_TRY(file->stat());
  uint64_t at = 0;
  return policy_->restore(info.size, [&](std::span<std::byte> into) -> Result<size_t> {
    const size_t got = PENSTOCK_TRY(file->read(at, into));
    at += got;
    return got;
  });
}

void Evictor::load(TickErrors& errors) {
  const Result<void> restored = read_index();
  if (!restored.ok()) {
    const ErrorCode code = restored.error().code;
    // kInvalid: it is no plain file. The next index is renamed over it.
    if (code != ErrorCode::kCorrupt && code != ErrorCode::kUnsupported &&
        code != ErrorCode::kInvalid)
      return errors.note(restored.error());
    log_info("what a cache had learnt cannot be read; it begins anew",
             {{"directory", directory_.path()}, {"reason", restored.error().detail}});
    return;
  }
  if (has_basis_) return;
  has_basis_ = distrusted_ = true;
  basis_bytes_ = policy_->used_bytes();
}

State Evictor::describe() const {
  State state;
  state.evictor = directory_.member();
  state.known = known_;
  state.used = used_bytes();
  state.limit = limit_;
  state.entries = known_ ? policy_->entries() : std::max(policy_->entries(), inherited_.entries);
  state.open_bytes = room_.state().open_bytes;
  state.invited_bytes = room_.state().invited_bytes;
  state.invited = room_.state().invited;
  state.members = roll_->living() + 1;
  state.totals = totals_;
  roll_->for_each([&](const std::string& member, const LogPosition& position) {
    StateRow& row = state.rows.emplace_back();
    row.member = member_hash(member);
    row.consumed = position;
    leases_.describe(member, row);
  });
  return state;
}

void Evictor::publish(State state, TickErrors& errors) {
  // Totals alone are no news, or every tick would write; now and then they are kept all the same.
  const bool recent = now_ - published_at_ < kTotalsEvery;
  const Totals totals = std::exchange(state.totals, recent ? published_.totals : state.totals);
  state.counter = published_.counter;
  if (ever_published_ && state == published_) return;
  state.totals = totals;
  // Also when it fails: a counter never stands for two states.
  state.counter = ++counter_;
  const Result<void> replaced = replace_file(directory_.file_system(), temporary(0),
                                             state_path(directory_), encode_state(state));
  errors.note_missing(replaced);
  if (!replaced.ok()) return;
  published_ = std::move(state);
  published_at_ = now_;
  ever_published_ = true;
}

// Numbers that the directory, which counts its own files up from 0, will not come to.
std::string Evictor::temporary(int which) const {
  return fmt::format("{}/{}/{}-{}", directory_.path(), kTemporaryName, directory_.member(),
                     10'000'000'000'000'000'000U + static_cast<uint64_t>(which));
}

void Evictor::save_index(TickErrors& errors) {
  index_at_ = now_;
  if (policy_->clock_bytes() == index_clock_ && policy_->entries() == index_entries_) return;
  const SteadyTime began = steady_clock::now();
  const Result<void> replaced =
      replace_file(directory_.file_system(), temporary(1), index_path(directory_),
                   [this](const FileSink& sink) { return policy_->save(sink); });
  errors.note(replaced);
  if (!replaced.ok()) return;
  index_clock_ = policy_->clock_bytes();
  index_entries_ = policy_->entries();
  // A large one takes no more than a hundredth of the time.
  index_pause_ = std::max<steady_clock::duration>(kIndexEvery, 100 * (steady_clock::now() - began));
}

bool Evictor::scan_due(SteadyTime now) const {
  return !scanning_ && now >= scan_not_before_ && (!known_ || gap_ || now >= scan_at_);
}

void Evictor::scan(const std::function<bool()>& between, TickErrors& errors) {
  constexpr uint64_t kEntriesBetween = 256;  // A fraction of a millisecond.
  const SteadyTime began = steady_clock::now();
  scanning_ = true;
  gap_ = false;
  const uint64_t accounted = unaccounted_bytes_;
  policy_->begin_scan();
  uint64_t count = 0;
  bool stopped = false;
  const Result<void> scanned = directory_.scan([&](const EntryName& name) {
    if (!gone_.contains(name.id)) policy_->seen(name);
    grain_ = std::max(grain_, name.file_bytes());
    if (++count % kEntriesBetween == 0) stopped = !between();
    return !stopped;
  });
  scanning_ = false;
  gone_.clear();
  const SteadyTime ended = steady_clock::now();
  scan_not_before_ =
      ended + std::max<steady_clock::duration>(pace_.scan_pause(), 10 * (ended - began));
  if (stopped || !scanned.ok()) {
    errors.note(scanned);
    gap_ = true;
    return;
  }
  policy_->end_scan();
  known_ = ask_space_ = true;
  unaccounted_bytes_ -= accounted;
  scan_at_ = ended + kScanEvery;
}

void Evictor::hand_over(SteadyTime now, TickErrors& errors) {
  now_ = now;
  save_index(errors);
  published_at_ = {};
  State state = describe();
  state.clean = known_ && !gap_;
  publish(std::move(state), errors);
}

}  // namespace penstock::cache
