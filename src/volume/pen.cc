#include "volume/pen.h"

#include <algorithm>

#include "volume/pen_store.h"
#include "volume/registry.h"

namespace penstock::volume {

namespace {

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
  PenOptions pen;
  pen.directory = address.directory;
  pen.volume = address.name;
  pen.name = name;
  pen.folder = std::move(folder);
  pen.read_only = options.read_only;
  pen.host.file_system = fs;
  pen.host.drain_on_close = true;
  return open_pen_store(pen);
}

}  // namespace

void add_pen_scheme() {
  store::add_store_scheme("pen", open_pen);
}

}  // namespace penstock::volume
