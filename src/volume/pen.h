// pen://NAME/PATH: volumes as stores, for everything that opens stores by address.
#pragma once

namespace penstock::volume {

// From now on store::open_store() knows pen://NAME and pen://NAME/FOLDER: in this process, where no
// other one has the volume, or through the one that has it (pen_store.h).
void add_pen_scheme();

}  // namespace penstock::volume
