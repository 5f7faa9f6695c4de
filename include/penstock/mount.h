// A volume as a directory of this machine: any program can use it (FUSE).
//
//   auto mount = PENSTOCK_TRY(mount::Mount::start(host, "train", "/mnt/train", {}));
//   PENSTOCK_TRY(mount->serve());                 // until it is unmounted
//
// What programs may rely on is in docs/SEMANTICS.md. In short: what POSIX says, with three
// promises. What write() returned (with gather_writes: close()) survives the death of this
// process; what fsync() returned survives a power cut; a file that cannot be read as it was written
// gives EIO.
//
// Kernel caches. What programs change comes through the mount, so the kernel may keep names, attributes
// and pages for as long as it likes. What other processes change through the owner of the volume
// (MountOptions::changes) it is told to forget before they are answered. A past version never changes
// at all.
// Threads: all calls from any thread; serve() once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"
#include "penstock/volume.h"

namespace penstock::volume {
class ChangeFeed;
}

namespace penstock::mount {

// When reading a file sets its time of access. Reads that the kernel answers from its own memory
// never do.
enum class AccessTimes : uint8_t {
  kNever,     // noatime
  kRelative,  // relatime: when it is older than the last change, or a day
  kAlways,    // strictatime
};

struct MountOptions {
  std::string source = "penstock";  // The first column of df and /proc/mounts.
  // This state of the volume, read-only, for as long as it is mounted. None: the live one.
  std::optional<meta::Version> version = std::nullopt;
  AccessTimes access_times = AccessTimes::kRelative;
  // Everything belongs to them, whatever is stored, and what is made is stored as theirs.
  std::optional<uint32_t> uid = std::nullopt;
  std::optional<uint32_t> gid = std::nullopt;
  bool acl =
      false;  // POSIX ACLs. They cost a request for each file whose permissions are looked at.
  // The kernel gathers writes, and close() and fsync() wait for them: many times faster for those of
  // a few KiB, but each close() is a request, and so is the next stat(). Otherwise every write(2) is
  // in the journal before it returns.
  bool gather_writes = false;
  bool no_exec = false;
  bool no_suid = false;       // Always, where the user is not root.
  bool no_device = false;     // Likewise.
  bool allow_other = true;    // All users; false: only the one who mounts.
  uint32_t threads_max = 64;  // Requests answered at once.
  // While many requests come, processors are kept from going to sleep in between, where this process
  // may ask for that (root): an answer comes twice as fast.
  bool stay_awake = true;
  // One that takes longer is told of in the log, while it hangs. 0: none is.
  Nanoseconds slow_request = std::chrono::seconds(10);
  // What df says where the volume has no quota: the drive of its store. Empty: it has no end.
  std::function<std::optional<io::SpaceInfo>()> space = nullptr;
  // Where else this process serves mounts: for its status. Empty: nowhere.
  std::function<std::vector<std::string>()> others = nullptr;
  // Where changes are told of that do not come through this mount. None: there are none.
  std::shared_ptr<volume::ChangeFeed> changes = nullptr;
};

class Mount {
 public:
  // `volume` of the host appears in `directory`, which exists. From there on programs wait for
  // serve(). kPermission where FUSE is missing or not allowed; the message says what to do.
  static Result<std::unique_ptr<Mount>> start(std::shared_ptr<volume::Host> host,
                                              std::string_view volume, const std::string& directory,
                                              const MountOptions& options);
  virtual ~Mount() = default;  // Unmounts, if it still is.

  // Answers requests until it is unmounted, by whomever.
  virtual Result<void> serve() = 0;
  // What the kernel still holds is written, and serve() returns. Where programs still use the
  // directory it waits for them until the deadline; then they get ENOTCONN.
  virtual Result<void> unmount(Deadline deadline) = 0;
};

// What a mount answers about itself (getxattr of its root, JSON), and what starts draining
// (setxattr, by root or whoever mounted it). In the name space of the system the kernel leaves to
// us who may.
inline constexpr const char* kStatusAttribute = "system.penstock.status";
inline constexpr const char* kDrainAttribute = "system.penstock.drain";

}  // namespace penstock::mount
