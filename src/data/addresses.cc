#include "data/addresses.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/glob.h"
#include "data/sample_names.h"
#include "data/source.h"
#include "store/object_address.h"
#include "store/selection.h"

namespace penstock::data {

namespace {

constexpr std::string_view kWild = "*?[{\\";

}  // namespace

std::string path_of_address(const std::string& address) {
  std::string path = address.starts_with(kTree) ? address.substr(kTree.size()) : address;
  const size_t colon = address.find(':');
  const bool other = !address.starts_with(kTree) && colon != std::string::npos &&
                     address.find_first_of("./") > colon;
  if (other) return "";
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<std::string> make_path_absolute(const std::string& address) {
  const std::string path = path_of_address(address);
  if (path.empty() || path.starts_with('/')) return address;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return errno_error(error.value(), "the current directory");
  const size_t begin = path.starts_with("./") ? path.find_first_not_of('/', 1) : 0;
  const std::string rest = path == "." || begin == std::string::npos ? "" : path.substr(begin);
  // In front of a pattern, what the folder is called is none.
  const bool is_pattern = rest.find_first_of(kWild) != std::string::npos;
  const std::string front = is_pattern ? glob_escape(here.string()) : here.string();
  return fmt::format("{}{}{}{}", kTree, front, rest.empty() ? "" : "/", rest);
}

std::string root_of_address(const std::string& address) {
  auto parts = store::split_object_address(address);
  if (!parts) return "";  // Their store begins there.
  std::string key = std::move(parts->key);
  const size_t wild = key.find_first_of(kWild);
  if (wild != std::string::npos) {
    const size_t slash = key.rfind('/', wild);
    return slash == std::string::npos ? "" : key.substr(0, slash + 1);
  }
  while (key.ends_with('/')) key.pop_back();
  return key.empty() ? "" : key + "/";
}

bool is_named_by(const std::vector<std::string>& addresses, const std::string& path) {
  return std::ranges::any_of(addresses, [&](const std::string& address) {
    const auto names = expand_braces(path_of_address(address), store::Selection::kNamesMax);
    return names.ok() && std::ranges::any_of(*names, [&](const std::string& name) {
             return Glob(name).matches(path);
           });
  });
}

bool is_wids_address(std::string_view address) {
  return address.ends_with(".json") && address.find_first_of(kWild) == std::string_view::npos;
}

std::string wids_address(const std::string& list, const std::string& url) {
  if (url.starts_with('/') || url.find("://") != std::string::npos) return url;
  const std::string folder = list.substr(0, list.size() - base_name(list).size());
  return folder + (store::is_object_address(list) ? glob_escape(url) : url);
}

}  // namespace penstock::data
