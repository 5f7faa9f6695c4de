#include "cache/directory_sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cache/directory_open.h"

namespace penstock::cache {

namespace {

// How many are dealt with at a time: each has a lock held, which is an open file.
constexpr size_t kMembersAtOnce = 64;
constexpr size_t kRandomDigits = 16;
constexpr std::string_view kLogSuffix = ".log";
constexpr std::string_view kLockSuffix = ".lock";

bool all_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}
constexpr std::string_view kDecimal = "0123456789";
constexpr std::string_view kHex = "0123456789abcdef";

// Whether it is a name as new members are given.
bool is_member(std::string_view text) {
  const size_t dash = text.find('-');
  return dash != std::string_view::npos && text.size() == dash + 1 + kRandomDigits &&
         all_of(text.substr(0, dash), kDecimal) && all_of(text.substr(dash + 1), kHex);
}

std::optional<std::string> as_member(std::string_view text) {
  if (!is_member(text)) return std::nullopt;
  return std::string(text);
}

// One sweep. A member is looked at once; `settled_` grows with those alive.
class Sweep {
 public:
  Sweep(io::FileSystem& fs, const std::string& root, const std::string& self)
      : fs_(fs),
        temporary_(fmt::format("{}/{}", root, kTemporaryName)),
        members_(fmt::format("{}/{}", root, kMembersName)),
        settled_({self}) {}

  Result<void> run() {
    while (true) {
      const std::vector<std::string> found = PENSTOCK_TRY(find());
      if (found.empty()) break;
      lock_dead(found);
      remove_files();
    }
    return first_error_;
  }

 private:
  using MemberOf = std::optional<std::string> (*)(std::string_view);
  using Locks = std::map<std::string, std::unique_ptr<io::FileLock>>;

  void note(const Result<void>& done) {
    if (!done.ok() && first_error_.ok()) first_error_ = done;
  }

  // Members that have files and were not looked at yet.
  Result<std::vector<std::string>> find() {
    std::set<std::string> found;
    const auto look = [&](const std::string& directory, MemberOf member_of) {
      return unless_missing(fs_.list(directory, [&](const io::DirectoryEntry& entry) {
        std::optional<std::string> member = member_of(entry.name);
        if (member && !settled_.contains(*member)) found.insert(std::move(*member));
        return found.size() < kMembersAtOnce;
      }));
    };
    PENSTOCK_TRY(look(members_, member_of_lock));
    PENSTOCK_TRY(look(members_, member_of_log));
    PENSTOCK_TRY(look(temporary_, member_of_temporary));
    return std::vector<std::string>(found.begin(), found.end());
  }

  void lock_dead(const std::vector<std::string>& found) {
    for (const std::string& member : found) {
      settled_.insert(member);
      Result<std::unique_ptr<io::FileLock>> lock = fs_.try_lock(lock_path(member));
      if (lock.ok()) {
        dead_.emplace(member, std::move(*lock));
      } else if (lock.error().code != ErrorCode::kBusy &&
                 lock.error().code != ErrorCode::kInvalid) {  // Alive; or no lock of ours.
        note(lock.error());
      }
    }
  }

  void remove_files() {
    note(remove_those(temporary_, member_of_temporary));
    note(remove_those(members_, member_of_log));
    // Last: who holds it keeps other sweepers from the rest.
    for (const auto& [member, lock] : dead_) note(unless_missing(fs_.remove(lock_path(member))));
    dead_.clear();
  }

  // The files of the dead. Not while listing: what a directory shows that loses names meanwhile is
  // up to it.
  Result<void> remove_those(const std::string& directory, MemberOf member_of) {
    std::vector<std::string> names;
    do {
      names.clear();
      PENSTOCK_TRY(unless_missing(fs_.list(directory, [&](const io::DirectoryEntry& entry) {
        const std::optional<std::string> member = member_of(entry.name);
        if (member && dead_.contains(*member)) names.push_back(entry.name);
        return names.size() < kNamesAtOnce;
      })));
      for (const std::string& name : names) {
        PENSTOCK_TRY(unless_missing(fs_.remove(fmt::format("{}/{}", directory, name))));
      }
    } while (names.size() == kNamesAtOnce);
    return {};
  }

  std::string lock_path(const std::string& member) const {
    return fmt::format("{}/{}{}", members_, member, kLockSuffix);
  }

  static constexpr size_t kNamesAtOnce = 1024;

  io::FileSystem& fs_;
  const std::string temporary_;
  const std::string members_;
  std::set<std::string> settled_;
  Locks dead_;
  Result<void> first_error_;
};

}  // namespace

std::optional<std::string> member_of_temporary(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || !all_of(name.substr(dash + 1), kDecimal)) {
    return std::nullopt;
  }
  return as_member(name.substr(0, dash));
}

std::optional<std::string> member_of_log(std::string_view name) {
  if (!name.ends_with(kLogSuffix)) return std::nullopt;
  name.remove_suffix(kLogSuffix.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return as_member(name);
  if (!all_of(name.substr(dot + 1), kDecimal)) return std::nullopt;
  return as_member(name.substr(0, dot));
}

std::optional<std::string> member_of_lock(std::string_view name) {
  if (!name.ends_with(kLockSuffix)) return std::nullopt;
  return as_member(name.substr(0, name.size() - kLockSuffix.size()));
}

Result<void> sweep_members(io::FileSystem& fs, const std::string& root, const std::string& self) {
  return Sweep(fs, root, self).run();
}

}  // namespace penstock::cache
