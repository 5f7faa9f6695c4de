#include "cli/cache_sources.h"

#include <fmt/core.h>

#include "cache/options.h"
#include "penstock/io.h"
#include "penstock/store.h"
#include "store/identity.h"

namespace penstock::cli {

namespace {

constexpr size_t kNamesMax = 10'000;
constexpr std::string_view kWild = "*?[\\";

std::string without_slash(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// "s3://bucket/KEYS" with the host in it. Nothing where no such bucket can be named.
void add_s3(const std::string& address, std::vector<Glob>& patterns) {
  const size_t slash = std::min(address.find('/', 5), address.size());
  const auto store = store::open_store(address.substr(0, slash), {.read_only = true});
  if (!store.ok()) return;
  const std::string keys = address.substr(std::min(slash + 1, address.size()));
  patterns.emplace_back(glob_escape((*store)->identity()) + without_slash(keys));
}

bool is_directory(io::FileSystem& fs, const std::string& path) {
  const Result<io::FileInfo> there = fs.stat(path);
  return there.ok() && there->kind == io::FileKind::kDirectory;
}

// A path as it is without links, as far as it is there.
Result<void> add_path(io::FileSystem& fs, std::string_view scheme, const std::string& path,
                      std::vector<Glob>& patterns) {
  const std::string whole = cache::normal_directory(path, true);
  const bool literal = fs.stat(whole).ok();
  const size_t wild = literal ? std::string::npos : whole.find_first_of(kWild);
  std::string folder =
      wild == std::string::npos ? whole : io::parent_path(whole.substr(0, wild + 1));
  while (!is_directory(fs, folder)) folder = io::parent_path(folder);
  std::string rest = whole.substr(folder.size());
  rest.erase(0, rest.find_first_not_of('/'));
  const std::string identity = PENSTOCK_TRY(store::directory_identity(fs, scheme, folder));
  patterns.emplace_back(glob_escape(identity) + (literal ? glob_escape(rest) : rest));
  return {};
}

}  // namespace

Result<std::vector<Glob>> source_patterns(const std::string& address) {
  io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
  std::vector<Glob> patterns;
  if (address.empty()) return make_error(ErrorCode::kInvalid, "--source with nothing behind it");
  for (const std::string& name : PENSTOCK_TRY(expand_braces(address, kNamesMax))) {
    patterns.emplace_back(without_slash(name));
    const bool tree = name.starts_with("tree:");
    if (name.starts_with("s3://")) {
      add_s3(name, patterns);
    } else if (tree || name.starts_with("file:")) {
      PENSTOCK_TRY(add_path(fs, tree ? "tree" : "file", name.substr(5), patterns));
    } else if (name.find(':') == std::string::npos || name.find_first_of("./") < name.find(':')) {
      PENSTOCK_TRY(add_path(fs, "tree", name, patterns));
    }
  }
  return patterns;
}

}  // namespace penstock::cli
