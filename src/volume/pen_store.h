// A volume as a store, wherever it is: in this process, or in another one that has it.
#pragma once

#include <memory>
#include <string>

#include "penstock/store.h"
#include "penstock/volume.h"

namespace penstock::volume {

struct PenOptions {
  std::string directory;    // Of the host.
  std::string volume = {};  // In it; empty: the one that it was made for.
  std::string name = {};    // For people: "pen://NAME".
  std::string folder = {};
  bool read_only = false;
  HostOptions host = {};  // For where this process takes it over.
};

// Where this process can have the volume, it has it for as long as the store lives. Otherwise each
// call goes to the process that has it, and when that ends, to whoever has it then, this process
// included. What was under way meanwhile is done again where that is safe: reads, puts, removals,
// flushes (what was acknowledged is in the journal, and what its next owner flushes includes it).
// A put that is if_absent, and uploads, fail with kUnavailable, retryable.
Result<std::unique_ptr<store::ObjectStore>> open_pen_store(const PenOptions& options);

class Owner;
// The same over an owner of this process, which stays while the store does.
Result<std::unique_ptr<store::ObjectStore>> make_owned_store(std::shared_ptr<Owner> owner,
                                                             const PenOptions& options);

}  // namespace penstock::volume
