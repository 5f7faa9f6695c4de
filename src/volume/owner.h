// Who has a volume: this process, which then answers others over the control socket, or another one,
// which is asked.
#pragma once

#include <memory>
#include <string>

#include "penstock/volume.h"
#include "volume/change_feed.h"
#include "volume/control_server.h"
#include "volume/control_socket.h"

namespace penstock::volume {

struct OwnerOptions {
  MountedAt mounted_at = nullptr;
  std::shared_ptr<ChangeFeed> feed = nullptr;
  // Called on threads of the control socket, from before open() returns until the owner has ended.
  control::MountBeside mount_beside = nullptr;
};

// A host that this process has, and shares with others for as long as this lives. With
// HostOptions::drain_on_close its end waits until all content is in the store; others are still
// answered meanwhile, and where they are connected it waits for some seconds only: one of them takes
// over.
// Threads: all calls from any thread.
class Owner {
 public:
  // Errors as of open_host(). Where no socket can be made (a file system without them) others are
  // refused as long as this lives; the log says so.
  static Result<std::shared_ptr<Owner>> open(const std::string& directory, HostOptions host,
                                             const OwnerOptions& options);
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  const std::shared_ptr<Host>& host() const { return host_; }

 private:
  Owner() = default;
  void drain();

  bool drain_on_close_ = false;
  std::shared_ptr<Host> host_;
  std::unique_ptr<ControlServer> server_;
};

// One of them.
struct Reached {
  std::shared_ptr<Owner> owner;  // One for all in this process, until the last lets go of it.
  control::Channel channel;      // To the process that has it.
};

// Has the process that owns the volume in this directory mount it once more. kUnavailable: nobody has
// it, or one that is just starting or ending; kUnsupported: who has it serves no mounts (the message
// says who); kPermission: it is of another user, who may be dead; kTimeout: it does not answer. Other
// errors are those of the mount.
Result<control::MountAnswer> mount_beside(const std::string& directory,
                                          const control::MountRequest& request,
                                          const std::stop_token& cancel);

// Takes the volume over, or connects to who has it. One that is just starting or ending is waited for,
// some seconds; then kBusy. kTimeout: it is there, and does not answer.
Result<Reached> reach(const std::string& directory, const HostOptions& options);

}  // namespace penstock::volume
