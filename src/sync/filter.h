// Which keys a run is about.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/glob.h"
#include "penstock/sync.h"

namespace penstock::sync {

// The filters of a run, ready for use.
// Threads: all calls from any thread.
class FilterList {
 public:
  // Requires that check_filter() took each.
  explicit FilterList(const std::vector<Filter>& filters);

  // Of an object, or of a folder when `key` ends with '/'. A filter matches what it names and all
  // that is below.
  bool selects(std::string_view key) const;
  // False only when nothing below `folder` (which ends with '/') is selected, so that it need not
  // be listed.
  bool may_select_below(std::string_view folder) const;
  bool empty() const { return patterns_.empty(); }

 private:
  struct Pattern {
    bool include = true;
    bool folders_only = false;
    bool from_top = false;
    Glob glob;
    std::vector<Glob> front;  // Its parts up to the first with "**", which may be any folders.

    bool matches_name(std::string_view path) const;
    bool matches(std::string_view key) const;
    bool may_match_below(std::string_view folder) const;
  };

  bool otherwise() const { return patterns_.empty() || !patterns_.front().include; }

  std::vector<Pattern> patterns_;
};

}  // namespace penstock::sync
