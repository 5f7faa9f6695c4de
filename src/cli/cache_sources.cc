#include "cli/cache_sources.h"

#include <fmt/core.h>

#include "cache/options.h"
#include "penstock/io.h"
#include "penstock/store.h"
#include "store/identity.h"
#include "store/object_address.h"

namespace penstock::cli {

namespace {

constexpr size_t kNamesMax = 10'000;
constexpr std::string_view kWild = "*?[\\";

std::string without_slash(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// By the identity of its store: the host of a bucket, the uuid of a volume. Nothing where no such
// store can be named.
void add_objects(const store::ObjectAddress& address, bool literal, std::vector<Glob>& patterns) {
  const auto store = store::open_store(address.store, {.read_only = true});
  if (!store.ok()) return;
  const std::string keys = without_slash(address.key);
  patterns.emplace_back(glob_escape((*store)->identity()) + (literal ? glob_escape(keys) : keys));
}

bool is_directory(io::FileSystem& fs, const std::string& path) {
  const Result<io::FileInfo> there = fs.stat(path);
  return there.ok() && there->kind == io::FileKind::kDirectory;
}

// A path as it is without links, as far as it is there.
Result<void> add_path(io::FileSystem& fs, std::string_view scheme, const std::string& path,
                      bool literal, std::vector<Glob>& patterns) {
  const std::string whole = cache::normal_directory(path, true);
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

Result<void> add_name(io::FileSystem& fs, const std::string& name, bool literal,
                      std::vector<Glob>& patterns) {
  const bool has_scheme = name.starts_with("tree:") || name.starts_with("file:");
  const bool is_path = has_scheme || name.find(':') == std::string::npos ||
                       name.find_first_of("./") < name.find(':');
  const std::string path = has_scheme ? name.substr(5) : name;
  // One that is there means itself, as for warm.
  if (is_path) literal = literal || fs.stat(cache::normal_directory(path, true)).ok();
  const std::string plain = without_slash(name);
  patterns.emplace_back(literal ? glob_escape(plain) : plain);
  if (const auto objects = store::split_object_address(name)) {
    add_objects(*objects, literal, patterns);
  }
  if (!is_path) return {};
  return add_path(fs, name.starts_with("file:") ? "file" : "tree", path, literal, patterns);
}

}  // namespace

Result<SourcePatterns> source_patterns(const std::string& address) {
  io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
  SourcePatterns patterns;
  if (address.empty()) return make_error(ErrorCode::kInvalid, "--source with nothing behind it");
  PENSTOCK_TRY(add_name(fs, address, true, patterns.literal));
  if (address.find_first_of(kWild) == std::string::npos && address.find('{') == std::string::npos) {
    return patterns;
  }
  for (const std::string& name : PENSTOCK_TRY(expand_braces(address, kNamesMax))) {
    PENSTOCK_TRY(add_name(fs, name, false, patterns.wild));
  }
  return patterns;
}

}  // namespace penstock::cli
