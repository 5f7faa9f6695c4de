#include "cache/source_table.h"

#include <algorithm>

namespace penstock::cache {

namespace {

// Of "s3://host/bucket/", "tree:/", "memory:9f86d08/": what is never folded into anything.
size_t root_bytes(std::string_view folder) {
  const size_t colon = folder.find(':');
  if (colon == std::string_view::npos) return folder.size();
  size_t at = colon + 1;
  int slashes = folder.substr(at).starts_with("//") ? 4 : 1;
  for (; slashes > 0 && at < folder.size(); ++at) slashes -= folder[at] == '/' ? 1 : 0;
  return at;
}

size_t depth_of(std::string_view folder) {
  const std::string_view below = folder.substr(root_bytes(folder));
  return static_cast<size_t>(std::ranges::count(below, '/'));
}

// "a/b/" of "a/b/c/".
std::string_view above(std::string_view folder) {
  return folder.substr(0, folder.rfind('/', folder.size() - 2) + 1);
}

}  // namespace

SourceTable::Sum& SourceTable::sum_of(std::string_view folder) {
  if (const auto known = sums_.find(folder); known != sums_.end()) return known->second;
  if (sums_.size() < kFoldersMax) return sums_[std::string(folder)];
  while (depth_of(folder) > 0) {
    folder = above(folder);
    if (const auto known = sums_.find(folder); known != sums_.end()) return known->second;
  }
  return sums_[""];
}

void SourceTable::add(std::string_view url, uint64_t bytes) {
  if (sums_.size() >= kFoldersMax && foldable_) {
    // By half, so that it does not come again soon.
    while (sums_.size() > kFoldersMax / 2 && foldable_) foldable_ = fold(sums_);
  }
  Sum& sum = sum_of(url.substr(0, url.rfind('/') + 1));
  sum.entries += 1;
  sum.bytes += bytes;
}

bool SourceTable::fold(Sums& sums) {
  size_t deepest = 0;
  for (const auto& [folder, sum] : sums) deepest = std::max(deepest, depth_of(folder));
  if (deepest == 0) return false;
  Sums folded;
  for (const auto& [folder, sum] : sums) {
    Sum& into = folded[std::string(depth_of(folder) == deepest ? above(folder) : folder)];
    into.entries += sum.entries;
    into.bytes += sum.bytes;
  }
  sums = std::move(folded);
  return true;
}

std::vector<SourceUse> SourceTable::rows(size_t limit) const {
  Sums sums = sums_;
  while (sums.size() > limit && fold(sums)) {
  }
  std::vector<SourceUse> rows;
  for (const auto& [folder, sum] : sums) rows.push_back({folder, sum.entries, sum.bytes});
  std::ranges::stable_sort(rows, std::ranges::greater(), &SourceUse::bytes);
  return rows;
}

}  // namespace penstock::cache
