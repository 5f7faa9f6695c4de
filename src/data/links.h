#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/io.h"

namespace penstock::data {

// Neither a link to a folder nor one that leads nowhere is a file: a dataset with such would silently be
// smaller than it looks. Looks for them in `folders`, paths at or below `root`, and where `deep` in all
// that is below those.
// kUnsupported names the first that leads to a folder out of `root`, kNotFound the first that leads
// nowhere, of those that `is_wanted`, which is asked with its path.
struct LinkSearch {
  std::string root;  // Without a '/' at its end, and absolute; otherwise nothing is looked for.
  std::vector<std::string> folders;
  bool deep = false;
  std::function<bool(const std::string& path, bool is_folder)> is_wanted;
};
Result<void> refuse_lost_links(io::FileSystem& fs, const LinkSearch& search);

}  // namespace penstock::data
