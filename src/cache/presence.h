// Who of those that left files in a cache directory is still there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/directory.h"
#include "penstock/result.h"

namespace penstock::cache {

enum class Presence : uint8_t {
  kAlive,
  kLeft,  // In order: what it had to say waits for the next process that evicts.
  kDead,
  kUnknown,  // We may not look.
};

struct PresentMember {
  Presence presence = Presence::kDead;
  // Relative to the directory: its lock, logs and fills not yet published.
  std::vector<std::string> files;
};

struct PresentFiles {
  std::map<std::string, PresentMember> members;  // By name: "PID-RANDOM". At most kMembersMax.
  std::vector<std::string>
      foreign;  // Relative; what is beside the entries and not ours. At most 1000.
};

// Looks at everything but the entries; makes and changes nothing, save that a lock which nobody
// holds is held for a moment.
Result<PresentFiles> look_around(CacheDirectory& directory);

}  // namespace penstock::cache
