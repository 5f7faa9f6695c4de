#include "volume/pen.h"

#include <map>
#include <mutex>

#include "store/object_address.h"
#include "volume/volume_store.h"

namespace penstock::volume {

namespace {

struct Hosts {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Host>> open;
};

Hosts& hosts() {
  static auto* const all = new Hosts;  // Its users may live until the process ends.
  return *all;
}

Result<std::unique_ptr<store::ObjectStore>> open_pen(std::string_view rest,
                                                     const store::StoreOptions& options) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string name(rest.substr(0, slash));
  std::string folder(rest.substr(std::min(slash + 1, rest.size())));
  while (!folder.empty() && folder.back() == '/') folder.pop_back();
  io::FileSystem* fs = options.file_system;
  if (fs == nullptr) fs = PENSTOCK_TRY(io::process_file_system());
  const Registry registry = PENSTOCK_TRY(Registry::of_user(*fs));
  const VolumeAddress address = PENSTOCK_TRY(registry.resolve(name));
  HostOptions host_options;
  host_options.file_system = fs;
  host_options.drain_on_close = true;
  const std::shared_ptr<Host> host = PENSTOCK_TRY(shared_host(address.directory, host_options));
  const std::string volume = address.name;
  std::shared_ptr<Volume> open = PENSTOCK_TRY(host->open(volume));
  const bool far = store::is_object_address(open->settings().store);
  return make_volume_store(
      std::move(open),
      {.name = name, .folder = folder, .read_only = options.read_only, .shared = far});
}

}  // namespace

Result<std::shared_ptr<Host>> shared_host(const std::string& directory,
                                          const HostOptions& options) {
  const std::lock_guard lock(hosts().mutex);
  std::weak_ptr<Host>& known = hosts().open[directory];
  if (std::shared_ptr<Host> host = known.lock()) return host;
  std::shared_ptr<Host> host = PENSTOCK_TRY(open_host(directory, options));
  known = host;
  return host;
}

void add_pen_scheme() {
  store::add_store_scheme("pen", open_pen);
}

}  // namespace penstock::volume
