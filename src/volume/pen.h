// pen://NAME/PATH: volumes as stores, for everything that opens stores by address.
#pragma once

#include <memory>
#include <string>

#include "penstock/volume.h"
#include "volume/registry.h"

namespace penstock::volume {

// The host of a volume, which this process owns from here on, until the last of its users lets go of
// it: one for all of them.
Result<std::shared_ptr<Host>> shared_host(const std::string& directory, const HostOptions& options);

// From now on store::open_store() knows pen://NAME and pen://NAME/FOLDER.
void add_pen_scheme();

}  // namespace penstock::volume
