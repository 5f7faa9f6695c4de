#include "volume/pen_store.h"

#include "volume/owner.h"
#include "volume/remote_store.h"
#include "volume/volume_store.h"

namespace penstock::volume {

Result<std::unique_ptr<store::ObjectStore>> make_owned_store(std::shared_ptr<Owner> owner,
                                                             const PenOptions& options) {
  std::string name = options.volume;
  if (name.empty()) name = PENSTOCK_TRY(owner->host()->volumes()).front();
  struct Held {
    std::shared_ptr<Owner> owner;
    std::shared_ptr<Volume> volume;  // Goes first.
  };
  auto held = std::make_shared<Held>();
  held->volume = PENSTOCK_TRY(owner->host()->open(name));
  held->owner = std::move(owner);
  Volume* const volume = held->volume.get();
  return make_volume_store(
      std::shared_ptr<Volume>(std::move(held), volume),
      {.name = options.name, .folder = options.folder, .read_only = options.read_only});
}

Result<std::unique_ptr<store::ObjectStore>> open_pen_store(const PenOptions& options) {
  Reached reached = PENSTOCK_TRY(reach(options.directory, options.host));
  if (reached.owner) return make_owned_store(std::move(reached.owner), options);
  return make_remote_store(options, std::move(reached.channel));
}

}  // namespace penstock::volume
