// One more mount of a volume, by the process that has it: what is asked of it, and answered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "penstock/meta.h"
#include "penstock/result.h"

namespace penstock::volume::control {

struct MountRequest {
  std::string volume = {};            // Empty: the one that the host was made for.
  std::string directory = {};         // Absolute, without links.
  std::string source = {};            // As mount::MountOptions have it, and so are those below.
  bool live = false;                  // Else read-only: one state, as it was
  std::optional<meta::Time> at = {};  // then; none: now.
  std::optional<uint32_t> uid = {};
  std::optional<uint32_t> gid = {};
  uint8_t access_times = 0;
  bool acl = false;
  bool gather_writes = false;
  bool no_exec = false;
  bool no_suid = false;
  bool no_device = false;
  bool allow_other = false;
  // The mount namespace of who asks (the number of /proc/self/ns/mnt): in another one it would not see
  // the mount. 0: not known.
  uint64_t name_space = 0;
};

struct MountAnswer {
  std::string volume = {};
  int32_t pid = 0;                            // Who serves it.
  std::optional<meta::Version> version = {};  // None: live.
  std::string log = {};                       // Where that process logs; empty: standard error.
};

// Mounts what is asked for. Given up when the token says so: nobody waits for it any more.
// kUnavailable: the process is about to end, or has just begun; ask again. kBusy: the live volume is
// mounted already.
using MountBeside = std::function<Result<MountAnswer>(const MountRequest&, const std::stop_token&)>;

template <typename Archive>
void fields(Archive& a, MountRequest& m) {
  a(m.volume, m.directory, m.source, m.live, m.at, m.uid, m.gid, m.access_times, m.acl,
    m.gather_writes, m.no_exec, m.no_suid, m.no_device, m.allow_other, m.name_space);
}
template <typename Archive>
void fields(Archive& a, MountAnswer& m) {
  a(m.volume, m.pid, m.version, m.log);
}

}  // namespace penstock::volume::control
