// The mounts that a process serves: states of the volumes of one host, each at a directory of its own
// and on threads of its own. The first is what the process was started for; the others come over the
// control socket.
//
//   MountSet mounts(feed);
//   PENSTOCK_TRY(mounts.begin(host, directory, first));
//   PENSTOCK_TRY(mounts.serve(stop));                  // until the last is unmounted
//
// Threads: all calls from any thread; begin() and serve() once. No lock is held while the kernel is
// asked for anything: it may ask one of these mounts.
// Lifetime: its end unmounts what is left. It outlives whoever calls add().
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "penstock/mount.h"
#include "penstock/volume.h"

namespace penstock::cli {

struct NewMount {
  std::string volume = {};  // Of the host; empty: the first.
  std::string directory = {};
  bool live = true;                   // Else one state, read-only, as it was
  std::optional<meta::Time> at = {};  // then; none: now.
  // As asked for. Its version, space, changes and others are found here.
  mount::MountOptions options = {};
};

struct Mounted {
  std::string volume = {};
  std::optional<meta::Version> version = {};  // None: live.
};

class MountSet {
 public:
  explicit MountSet(std::shared_ptr<volume::ChangeFeed> feed);
  ~MountSet();
  MountSet(const MountSet&) = delete;
  MountSet& operator=(const MountSet&) = delete;

  // The first one, of this host, which lies in `directory`.
  Result<Mounted> begin(std::shared_ptr<volume::Host> host, std::string directory,
                        const NewMount& first);
  // One more. kUnavailable before begin() has returned and after serve() has; kBusy: the live volume is
  // mounted already; kExists: something is at that directory. When `cancel` says so before it is
  // mounted, it is not.
  Result<Mounted> add(const NewMount& wanted, const std::stop_token& cancel);
  // Until the last one is unmounted, be it because `stop` says so. What a live one changed is a version
  // when it is gone. The first error of any.
  Result<void> serve(const std::stop_token& stop);

  // Where the volume of that name is; the live one before others. Empty: nowhere.
  std::string mounted_at(std::string_view volume) const;

 private:
  struct Entry {
    std::string volume;
    std::array<std::byte, 16> uuid{};
    std::string directory;
    bool live = false;
    std::shared_ptr<mount::Mount> mount;  // None: it is just starting, or ending.
    std::thread thread;
    bool ended = false;
  };
  enum class State : uint8_t { kNew, kFirst, kOpen, kEnded };
  using Started = std::promise<Result<Mounted>>;

  Result<Mounted> start(const NewMount& wanted, const std::stop_token& cancel);
  Result<Entry*> reserve(const NewMount& wanted, std::string name);
  Result<void> check_live(std::unique_lock<std::mutex>& lock, const Entry& wanted);
  void run(Entry& entry, const NewMount& wanted, const std::stop_token& cancel, Started& started);
  Result<Mounted> mount_one(Entry& entry, const NewMount& wanted, const std::stop_token& cancel);
  Result<Mounted> mount_state(const Entry& entry, const NewMount& wanted,
                              mount::MountOptions options, std::shared_ptr<mount::Mount>& made);
  void finish(Entry& entry, Result<void> done);
  Result<void> note_end(const Entry& entry);
  std::vector<std::string> all_but(const Entry& entry) const;
  void unmount_all();
  std::vector<std::unique_ptr<Entry>> take_ended();  // The lock is held.
  static void join(const std::vector<std::unique_ptr<Entry>>& ended);

  const std::shared_ptr<volume::ChangeFeed> feed_;
  std::shared_ptr<volume::Host> host_;  // Set before there are threads.
  std::string host_directory_;
  mount::MountOptions first_options_;  // What is the process's, others follow.

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Entry>> entries_;  // In the order in which they came.
  State state_ = State::kNew;
  bool stopping_ = false;  // All are being unmounted.
  Result<void> first_error_;
};

}  // namespace penstock::cli
