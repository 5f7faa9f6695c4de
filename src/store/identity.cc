#include "store/identity.h"

#include <fmt/core.h>

#include <random>

#include "store/tree_files.h"

namespace penstock::store {

std::string own_identity(std::string_view scheme) {
  std::random_device device;
  return fmt::format("{}:{:08x}{:08x}{:08x}{:08x}/", scheme, device(), device(), device(),
                     device());
}

Result<std::string> directory_identity(io::FileSystem& fs, std::string_view scheme,
                                       const std::string& path) {
  if (!path.starts_with('/')) return own_identity(scheme);
  const std::string real = PENSTOCK_TRY(real_path(fs, path));
  return fmt::format("{}:{}{}", scheme, real, real.ends_with('/') ? "" : "/");
}

}  // namespace penstock::store
