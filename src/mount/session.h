// A session of libfuse, from mount to unmount.
// Threads: serve() once; unmount() from any other thread. Destroying it unmounts.
#pragma once

#include <string>

#include "mount/fuse.h"
#include "penstock/mount.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::mount {

class Session {
 public:
  Session(std::string directory, uint32_t threads_max);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // `server` is handed to the operations, and outlives the session.
  Result<void> mount(const MountOptions& options, const fuse_lowlevel_ops& operations, void* server,
                     const fuse_custom_io* io);
  fuse_session* get() { return session_; }
  // Unmounts, if it still is, and lets go of the kernel: whoever waits for it gets an error.
  void leave();
  Result<void> serve();
  Result<void> unmount(Deadline deadline);

 private:
  Result<void> detach();

  const std::string directory_;
  const uint32_t threads_max_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
};

}  // namespace penstock::mount
