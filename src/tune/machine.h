// A machine as the checks see it: a directory that holds its /proc, /sys and /etc ("/" for this
// one), and the few facts that no file tells. Tests and saved trees put others in their place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "tune/mount_table.h"
#include "tune/system_text.h"

namespace penstock::tune::doctor {

// What has to be asked of the kernel, a device or a program. Each may be unknown: functions then
// answer an error that says why.
struct Facts {
  std::function<Result<io::SpaceInfo>(const std::string& path)> space;
  std::function<Result<std::string>(const std::string& path)> lustre_striping;  // lfs getstripe
  std::function<Result<std::string>(const std::string& dataset, const std::string& property)>
      zfs_property;
  std::function<Result<NvmeHealth>(const std::string& controller)> nvme_health;  // "nvme0"
  std::function<void(uint64_t milliseconds)> sleep;  // Between two looks at a moving number.
  std::optional<uint64_t> memlock_bytes;             // UINT64_MAX: unlimited.
  std::optional<int> io_uring_errno;                 // Of io_uring_setup; 0: it works.
};

// Facts of which every one is unknown, for the reason given.
Facts unknown_facts(const std::string& reason);

// Threads: const calls from any thread, when the facts allow it. Reads on every call, and keeps
// only the mount table.
class Machine {
 public:
  Machine(std::string root, Facts facts);

  const Facts& facts() const { return facts_; }
  const std::vector<Mount>& mounts() const { return mounts_; }

  // The file's text without blanks around it. At most 4 MiB are read.
  Result<std::string> read(const std::string& path) const;
  std::string read_or(const std::string& path, std::string_view otherwise) const;
  std::optional<uint64_t> read_number(const std::string& path) const;
  std::optional<int64_t> read_signed(const std::string& path) const;
  bool exists(const std::string& path) const;
  // The names in a directory, sorted; none when it cannot be read.
  std::vector<std::string> list(const std::string& path) const;
  // Where `path` leads once every link is followed, as a path on this machine; empty when it leads
  // nowhere or out of the tree.
  std::string resolve(const std::string& path) const;

 private:
  std::string root_;  // Without a slash at its end: "" for this machine.
  Facts facts_;
  std::vector<Mount> mounts_;
};

// This machine, and all its facts.
Machine local_machine();

// A tree saved from another machine: its proc, sys and etc, and where there is one a
// penstock-facts.json with what those do not tell (docs/DOCTOR.md says how it looks).
Result<Machine> saved_machine(const std::string& root);

}  // namespace penstock::tune::doctor
