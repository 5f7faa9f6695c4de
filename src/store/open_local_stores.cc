#include "store/open_local_stores.h"

#include <fmt/core.h>

#include <filesystem>

namespace penstock::store {

namespace {

bool has_scheme(std::string_view address) {
  const size_t colon = address.find(':');
  return colon != std::string_view::npos && address.find_first_of("./") > colon;
}

// "///dir" is "/dir". What is relative is so to the working directory of now, not of later.
std::string normal_path(std::string_view path, bool local) {
  while (path.starts_with("//")) path.remove_prefix(1);
  if (!local || path.empty() || path.starts_with('/')) return std::string(path);
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? std::string(path) : absolute.lexically_normal().string();
}

Result<std::unique_ptr<ObjectStore>> open_directory(std::string_view path, bool tree,
                                                    const StoreOptions& options) {
  const bool local = options.file_system == nullptr;
  io::FileSystem* const fs = local ? PENSTOCK_TRY(io::process_file_system()) : options.file_system;
  const std::string directory = normal_path(path, local);
  if (tree) return open_tree_store(*fs, directory, {.read_only = options.read_only});
  return open_file_store(*fs, directory, options.read_only);
}

}  // namespace

std::optional<Result<std::unique_ptr<ObjectStore>>> open_local_store(const std::string& address,
                                                                     const StoreOptions& options) {
  const std::string_view text = address;
  if (text.starts_with("file:")) return open_directory(text.substr(5), false, options);
  if (text.starts_with("tree:")) return open_directory(text.substr(5), true, options);
  if (text == "memory:" && options.read_only) {
    return make_error(ErrorCode::kInvalid,
                      "memory: is empty when it is opened; read-only it would stay so");
  }
  if (text == "memory:") return make_memory_store();
  if (has_scheme(text) || text.empty()) return std::nullopt;
  return open_directory(text, true, options);
}

}  // namespace penstock::store
