#include "cache/members.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cache/directory_sweep.h"
#include "cache/state_file.h"

namespace penstock::cache {

namespace {

// "17", but neither "017" nor "0": the first log has no number.
std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '0') return {};
  return number;
}

}  // namespace

std::string lock_path(const std::string& folder, const std::string& member) {
  return fmt::format("{}/{}.lock", folder, member);
}

std::optional<MemberFileName> parse_member_file(std::string_view name) {
  if (std::optional<std::string> member = member_of_lock(name)) {
    return MemberFileName{std::move(*member), std::nullopt};
  }
  std::optional<std::string> member = member_of_log(name);
  if (!member) return std::nullopt;
  constexpr std::string_view kSuffix = ".log";
  const std::string_view between =
      name.substr(member->size(), name.size() - member->size() - kSuffix.size());
  if (between.empty()) return MemberFileName{std::move(*member), 0};
  const std::optional<uint32_t> number = parse_number(between.substr(1));
  if (!number) return std::nullopt;
  return MemberFileName{std::move(*member), number};
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
