// Sums by where objects come from: a line per folder, and no more lines than people read.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cache {

struct SourceUse {
  // "s3://host/bucket/train/", "tree:/mnt/data/": all below that has no line of its own. Empty: of
  // more sources than are told apart.
  std::string folder;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // Of objects; their files are a little larger.
  bool operator==(const SourceUse&) const = default;
};

class SourceTable {
 public:
  // An entry with `bytes` of the object at `url` (ObjectVersion::url).
  void add(std::string_view url, uint64_t bytes);
  // Largest first. Where there are more than `limit` folders, the deepest are counted with those above
  // them; never above a bucket or the root of a tree, so it may still be more.
  std::vector<SourceUse> rows(size_t limit) const;

 private:
  static constexpr size_t kFoldersMax = 10'000;
  struct Sum {
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  using Sums = std::map<std::string, Sum, std::less<>>;
  // Counts the deepest folders with those above them. False: there is nothing above.
  static bool fold(Sums& sums);
  Sum& sum_of(std::string_view folder);

  Sums sums_;
  bool foldable_ = true;
};

}  // namespace penstock::cache
