// A volume, or a past version of one, as a store of objects: keys are paths of regular files.
// Links and special files are not there. Directories are made for puts, and go with the last file that
// is removed from them, as folders of S3 do: an empty one is in no listing, and would be in the way of
// whoever looks at the volume through a mount. A put is a new file that takes the place of the old one, whole.
#pragma once

#include <memory>
#include <string>

#include "penstock/store.h"
#include "penstock/volume.h"

namespace penstock::volume {

struct VolumeStoreOptions {
  std::string name = {};  // For people: "pen://NAME".
  std::string folder =
      {};  // Only what is below this directory, which is made when need be; empty: all.
  bool read_only = false;
  bool shared = false;  // Its content comes over a network: store::Capabilities.
};

std::unique_ptr<store::ObjectStore> make_volume_store(std::shared_ptr<Volume> volume,
                                                      const VolumeStoreOptions& options);
std::unique_ptr<store::ObjectStore> make_view_store(std::shared_ptr<VolumeView> view,
                                                    const VolumeStoreOptions& options);

}  // namespace penstock::volume
