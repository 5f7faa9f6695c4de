#include "cache/members.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cache/state_file.h"

namespace penstock::cache {

namespace {

constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kLogSuffix = ".log";
constexpr size_t kRandomDigits = 16;

// "PID-RANDOM": other files are somebody else's, and never touched.
bool is_member_name(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == 0 || dash == std::string_view::npos || name.size() != dash + 1 + kRandomDigits) {
    return false;
  }
  return name.find_first_not_of("0123456789") == dash &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == std::string_view::npos;
}

// "17", but neither "017" nor "0": the first log has no number.
std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '0') return {};
  return number;
}

}  // namespace

std::string lock_path(const std::string& folder, const std::string& member) {
  return fmt::format("{}/{}{}", folder, member, kLockSuffix);
}

std::optional<MemberFileName> parse_member_file(std::string_view name) {
  if (name.ends_with(kLockSuffix)) {
    name.remove_suffix(kLockSuffix.size());
    if (!is_member_name(name)) return std::nullopt;
    return MemberFileName{std::string(name), std::nullopt};
  }
  if (!name.ends_with(kLogSuffix)) return std::nullopt;
  name.remove_suffix(kLogSuffix.size());
  uint32_t number = 0;
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    const std::optional<uint32_t> parsed = parse_number(name.substr(dot + 1));
    if (!parsed) return std::nullopt;
    number = *parsed;
    name = name.substr(0, dot);
  }
  if (!is_member_name(name)) return std::nullopt;
  return MemberFileName{std::string(name), number};
}

Result<std::map<std::string, MemberFiles>> list_members(io::FileSystem& fs,
                                                        const std::string& folder) {
  std::map<std::string, MemberFiles> members;
  PENSTOCK_TRY(fs.list(folder, [&](const io::DirectoryEntry& entry) {
    std::optional<MemberFileName> name = parse_member_file(entry.name);
    if (!name || entry.kind != io::FileKind::kFile) return true;
    if (members.size() >= kMembersMax && !members.contains(name->member)) return true;
    MemberFiles& files = members[name->member];
    if (name->log) {
      files.logs.push_back(*name->log);
    } else {
      files.lock = true;
    }
    return true;
  }));
  for (auto& [member, files] : members) std::ranges::sort(files.logs);
  return members;
}

Result<void> Membership::join() {
  if (lock_ != nullptr) return {};
  lock_ = PENSTOCK_TRY(fs_.try_lock(path_));
  return {};
}

Result<bool> Membership::check() {
  if (lock_ == nullptr) return false;
  Result<std::unique_ptr<io::FileLock>> again = fs_.try_lock(path_);
  if (!again.ok() && again.error().code == ErrorCode::kBusy) return true;
  if (!again.ok()) return again.error();
  lock_ = std::move(*again);
  return false;
}

Result<void> Membership::leave() {
  if (lock_ == nullptr) return {};
  Result<void> removed = fs_.remove(path_);  // Left over, it is swept by the next evictor.
  lock_.reset();
  return removed;
}

}  // namespace penstock::cache
