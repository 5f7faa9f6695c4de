#include "cache/presence.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cache/directory_open.h"
#include "cache/directory_sweep.h"
#include "cache/log_record.h"
#include "cache/member_log.h"
#include "cache/members.h"
#include "cache/state_file.h"

namespace penstock::cache {

namespace {

constexpr size_t kForeignMax = 1000;

constexpr std::array<std::string_view, 8> kOurs = {"penstock-cache", kEntriesName,   kTemporaryName,
                                                   kMembersName,     "evictor.lock", "state",
                                                   "index",          "lost+found"};

bool is_ours(const std::string& name) {
  // The second is what making a cache leaves when it is killed.
  return std::ranges::find(kOurs, name) != kOurs.end() || name.starts_with("penstock-cache.tmp-");
}

class Look {
 public:
  explicit Look(CacheDirectory& directory) : directory_(directory) {}

  Result<PresentFiles> run() {
    PENSTOCK_TRY(list("", [this](const io::DirectoryEntry& entry) {
      if (!is_ours(entry.name)) add_foreign(entry.name);
    }));
    PENSTOCK_TRY(list(kMembersName, [this](const io::DirectoryEntry& entry) {
      const std::optional<MemberFileName> file = parse_member_file(entry.name);
      add(kMembersName, entry, file ? std::optional(file->member) : std::nullopt);
    }));
    PENSTOCK_TRY(list(kTemporaryName, [this](const io::DirectoryEntry& entry) {
      add(kTemporaryName, entry, member_of_temporary(entry.name));
    }));
    for (auto& [name, member] : found_.members) {
      member.presence = presence_of(name, member);
      if (member.presence == Presence::kDead && has_left(name, member)) {
        member.presence = Presence::kLeft;
      }
    }
    return std::move(found_);
  }

 private:
  Result<void> list(const std::string& folder,
                    const std::function<void(const io::DirectoryEntry&)>& visit) {
    const std::string path =
        folder.empty() ? directory_.path() : fmt::format("{}/{}", directory_.path(), folder);
    const Result<void> listed =
        directory_.file_system().list(path, [&](const io::DirectoryEntry& entry) {
          visit(entry);
          return true;
        });
    if (!listed.ok() && listed.error().code == ErrorCode::kNotFound) return {};
    return listed;
  }

  void add(const char* folder, const io::DirectoryEntry& entry,
           const std::optional<std::string>& member) {
    std::string path = fmt::format("{}/{}", folder, entry.name);
    if (!member || entry.kind != io::FileKind::kFile) return add_foreign(std::move(path));
    const bool room = found_.members.size() < kMembersMax || found_.members.contains(*member);
    if (room) found_.members[*member].files.push_back(std::move(path));
  }

  void add_foreign(std::string path) {
    if (found_.foreign.size() < kForeignMax) found_.foreign.push_back(std::move(path));
  }

  // Only a lock that is there is tried: trying would make it.
  Presence presence_of(const std::string& name, const PresentMember& member) {
    const std::string lock = fmt::format("{}/{}.lock", kMembersName, name);
    if (std::ranges::find(member.files, lock) == member.files.end()) return Presence::kDead;
    const auto held =
        directory_.file_system().try_lock(fmt::format("{}/{}", directory_.path(), lock));
    if (held.ok()) return Presence::kDead;
    return held.error().code == ErrorCode::kBusy ? Presence::kAlive : Presence::kUnknown;
  }

  // Whether the last word in its last log says so, and it left nothing else.
  bool has_left(const std::string& name, const PresentMember& member) {
    std::optional<uint32_t> last;
    for (const std::string& path : member.files) {
      if (!path.starts_with(kMembersName)) return false;
      const auto file = parse_member_file(path.substr(path.rfind('/') + 1));
      if (file && file->log) last = std::max(last.value_or(0), *file->log);
    }
    if (!last) return false;
    const std::string folder = fmt::format("{}/{}", directory_.path(), kMembersName);
    const auto log =
        directory_.file_system().open(log_path(folder, name, *last), {.plain_only = true});
    if (!log.ok()) return false;
    const Result<io::FileInfo> info = (*log)->stat();
    std::array<std::byte, kRecordBytes> bytes{};
    if (!info.ok() || info->size < bytes.size()) return false;
    const Result<size_t> read = (*log)->read(info->size - bytes.size(), bytes);
    if (!read.ok() || *read < bytes.size()) return false;
    const std::optional<LogRecord> record = parse_record(bytes);
    return record && std::holds_alternative<Left>(*record);
  }

  CacheDirectory& directory_;
  PresentFiles found_;
};

}  // namespace

Result<PresentFiles> look_around(CacheDirectory& directory) {
  return Look(directory).run();
}

}  // namespace penstock::cache
