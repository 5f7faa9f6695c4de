// Who uses a cache directory: the files in DIR/members.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

std::string lock_path(const std::string& folder, const std::string& member);

struct MemberFiles {
  bool lock = false;
  std::vector<uint32_t> logs;  // Their numbers, smallest first.
};
// By name; at most kMembersMax. Files with other names are passed over.
Result<std::map<std::string, MemberFiles>> list_members(io::FileSystem& fs,
                                                        const std::string& folder);

// What a file in DIR/members is.
struct MemberFileName {
  std::string member;
  std::optional<uint32_t> log;  // Its number; nothing: the lock.
  bool operator==(const MemberFileName&) const = default;
};
std::optional<MemberFileName> parse_member_file(std::string_view name);

// This process among them: a lock that dies with it.
// Threads: one at a time.
class Membership {
 public:
  Membership(io::FileSystem& fs, std::string folder, std::string member)
      : fs_(fs), path_(lock_path(folder, member)) {}
  // Removes the lock file too, when there is nothing else of this member to be found by it.
  Result<void> leave();

  // Takes the lock where it is not held. kBusy when another has the name: a bug of who chose it.
  Result<void> join();
  // Whether others still see it. False when the file was removed underneath; then it is held again.
  Result<bool> check();
  bool joined() const { return lock_ != nullptr; }

 private:
  io::FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<io::FileLock> lock_;
};

}  // namespace penstock::cache
