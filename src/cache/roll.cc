#include "cache/roll.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cache/directory_open.h"
#include "cache/directory_sweep.h"

namespace penstock::cache {

Roll::Roll(CacheDirectory& directory, Listener& listener, const State& state, const Pace& pace)
    : directory_(directory),
      listener_(listener),
      state_(state),
      pace_(pace),
      folder_(fmt::format("{}/{}", directory.path(), kMembersName)),
      complete_(!state.evictor.empty() && state.rows.empty()) {}

bool Roll::update(SteadyTime now, uint64_t budget, TickErrors& errors) {
  const Result<Files> there = list_members(directory_.file_system(), folder_);
  if (!there.ok()) {
    errors.note(there.error());
    return false;
  }
  forget_missing(*there);
  bool more = false;
  bool own_read = true;
  for (const auto& [name, files] : *there) {
    const Result<bool> visited = visit(name, files, now, budget);
    if (!visited.ok()) errors.note(visited.error());
    more |= visited.ok() && *visited;
    if (name == directory_.member()) own_read = visited.ok() && !*visited;
  }
  complete_ |= own_read;
  if (sweep_) {
    const Result<void> swept = sweep_strangers(*there);
    errors.note(swept);
    sweep_ = !swept.ok();
  }
  return more;
}

Roll::Member& Roll::find(const std::string& name) {
  const auto found = members_.find(name);
  if (found != members_.end()) return found->second;
  LogReader reader(directory_.file_system(), folder_, name, pace_.patience());
  const StateRow* row = state_.row_of(member_hash(name));
  if (row != nullptr) reader.start_at(row->consumed);
  Member& member = members_.try_emplace(name, std::move(reader)).first->second;
  member.spoke = row != nullptr && row->ceiling_max > 0;  // To the evictor before.
  listener_.on_found(name);
  return member;
}

// Somebody else swept them.
void Roll::forget_missing(const Files& there) {
  for (auto at = members_.begin(); at != members_.end();) {
    const std::string name = at->first;
    ++at;
    if (!there.contains(name)) forget(name);
  }
}

void Roll::forget(const std::string& name) {
  const Member& member = find(name);
  const bool in_order = !member.spoke || member.left;
  members_.erase(name);
  listener_.on_gone(name, in_order);
}

Result<std::unique_ptr<io::FileLock>> Roll::lock_if_dead(const std::string& name, Member& member,
                                                         SteadyTime now) {
  if (member.seen_alive && now - *member.seen_alive < pace_.liveness()) {
    return std::unique_ptr<io::FileLock>();
  }
  Result<std::unique_ptr<io::FileLock>> lock =
      directory_.file_system().try_lock(lock_path(folder_, name));
  if (!lock.ok() && lock.error().code == ErrorCode::kBusy) {
    member.seen_alive = now;
    return std::unique_ptr<io::FileLock>();
  }
  return lock;
}

// True: there is more to be read.
Result<bool> Roll::visit(const std::string& name, const MemberFiles& files, SteadyTime now,
                         uint64_t& budget) {
  const bool self = name == directory_.member();
  if (self && files.logs.empty()) return false;
  Member& member = find(name);
  std::unique_ptr<io::FileLock> dead;
  if (!self) dead = PENSTOCK_TRY(lock_if_dead(name, member, now));
  const bool finished = self || dead != nullptr;
  if (PENSTOCK_TRY(read(name, member, files, finished, budget))) return true;
  if (!finished) return false;
  PENSTOCK_TRY(remove_logs(name, files));
  if (self) {
    member.left = true;  // What it has not written it knows.
  } else {
    PENSTOCK_TRY(remove_traces(name));
  }
  forget(name);
  return false;
}

Result<bool> Roll::read(const std::string& name, Member& member, const MemberFiles& files,
                        bool finished, uint64_t& budget) {
  uint64_t read_bytes = 0;
  const auto progress =
      member.reader.read(files.logs, budget, finished, [&](const LogRecord& record) {
        read_bytes += kRecordBytes;
        apply(name, member, record);
      });
  budget -= std::min(budget, read_bytes);
  if (!progress.ok()) return progress.error();
  if (progress->damaged) listener_.on_gap();
  return progress->more;
}

void Roll::apply(const std::string& name, Member& member, const LogRecord& record) {
  if (const Note* note = std::get_if<Note>(&record)) {
    member.spoke = true;
    listener_.on_note(name, *note);
  } else if (const Standing* standing = std::get_if<Standing>(&record)) {
    member.spoke = true;
    listener_.on_standing(name, *standing);
  } else if (const Tally* tally = std::get_if<Tally>(&record)) {
    listener_.on_tally(*tally);
  } else if (const Terms* terms = std::get_if<Terms>(&record)) {
    member.terms = *terms;
  } else if (std::holds_alternative<Left>(record)) {
    member.left = true;
    // Now, for its row: the next evictor may begin behind this record.
    listener_.on_gone(name, true);
  } else if (std::holds_alternative<Lost>(record)) {
    listener_.on_gap();
  }
}

Result<void> Roll::remove_logs(const std::string& name, const MemberFiles& files) {
  for (const uint32_t file : files.logs) {
    const Result<void> removed = directory_.file_system().remove(log_path(folder_, name, file));
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

// Those that left nothing but temporary files. Not by a sweep of the directory, which would also take
// the unread logs of whoever left meanwhile.
Result<void> Roll::sweep_strangers(const Files& there) {
  io::FileSystem& fs = directory_.file_system();
  std::set<std::string> strangers;
  const std::string folder = fmt::format("{}/{}", directory_.path(), kTemporaryName);
  PENSTOCK_TRY(fs.list(folder, [&](const io::DirectoryEntry& entry) {
    std::optional<std::string> name = member_of_temporary(entry.name);
    const bool known = !name || *name == directory_.member() || there.contains(*name);
    if (!known) strangers.insert(std::move(*name));
    return true;
  }));
  Result<void> first_error;
  for (const std::string& name : strangers) {
    const Result<std::unique_ptr<io::FileLock>> dead = fs.try_lock(lock_path(folder_, name));
    const bool alive = !dead.ok() && dead.error().code == ErrorCode::kBusy;
    const bool not_ours = !dead.ok() && dead.error().code == ErrorCode::kInvalid;
    if (alive || not_ours) continue;
    const Result<void> removed = dead.ok() ? remove_traces(name) : Result<void>(dead.error());
    if (first_error.ok()) first_error = removed;
  }
  return first_error;
}

Result<void> Roll::remove_traces(const std::string& name) {
  io::FileSystem& fs = directory_.file_system();
  const std::string folder = fmt::format("{}/{}", directory_.path(), kTemporaryName);
  std::vector<std::string> paths;
  PENSTOCK_TRY(fs.list(folder, [&](const io::DirectoryEntry& entry) {
    if (member_of_temporary(entry.name) == name) {
      paths.push_back(fmt::format("{}/{}", folder, entry.name));
    }
    return true;
  }));
  paths.push_back(lock_path(folder_, name));  // Last: without it nobody would look for the rest.
  for (const std::string& path : paths) {
    const Result<void> removed = fs.remove(path);
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

Terms Roll::strictest() const {
  Terms strictest;
  for (const auto& [name, member] : members_) {
    if (!member.terms || !member.seen_alive) continue;
    strictest.quota_bytes = std::min(strictest.quota_bytes, member.terms->quota_bytes);
    strictest.floor_bytes = std::max(strictest.floor_bytes, member.terms->floor_bytes);
  }
  return strictest;
}

uint32_t Roll::living() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      members_, [](const auto& item) { return item.second.seen_alive.has_value(); }));
}

void Roll::for_each(
    const std::function<void(const std::string&, const LogPosition&)>& visit) const {
  for (const auto& [name, member] : members_) {
    if (member.seen_alive) visit(name, member.reader.position());
  }
}

}  // namespace penstock::cache
