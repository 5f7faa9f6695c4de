// What a mount tells other processes about itself, and what they may ask of it, through attributes
// of its root: the way is open to whoever sees the mount, and to nobody else.
// Threads: all calls from any thread. Stopping: a drain under way is given up within seconds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "penstock/volume.h"
#include "volume/admin.h"

namespace penstock::mount {

struct MountFacts {
  std::string volume;
  std::string directory;
  std::optional<meta::Version> version = std::nullopt;  // None: live.
  std::function<std::vector<std::string>()> others = nullptr;
  std::string store = {};  // For people.
};

class Control {
 public:
  Control(std::shared_ptr<volume::Host> host, MountFacts facts);
  ~Control();

  const MountFacts& facts() const { return facts_; }
  // JSON; `requests`: how many came of each kind.
  Result<std::string> status(const std::map<std::string, uint64_t>& requests);
  // Begins to move all content to the store; status() says how far it is.
  void start_drain();

 private:
  void run();

  const std::unique_ptr<volume::Admin> admin_;
  const MountFacts facts_;
  std::stop_source stop_;
  std::mutex mutex_;
  bool draining_ = false;
  std::string drain_error_;
  std::thread drainer_;
};

}  // namespace penstock::mount
