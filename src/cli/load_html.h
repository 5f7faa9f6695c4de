#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/load_timeline.h"
#include "loader/explain.h"

namespace penstock::cli {

struct LoadPage {
  std::string source;
  std::string options;  // For people: "batches of 256, shuffle global".
  loader::Report report;
  loader::Explanation explanation;
  std::vector<LoadMoment> moments;
};

// One page with everything in it, well-formed as XML too. Nothing is loaded from anywhere.
std::string render_load_html(const LoadPage& page);

}  // namespace penstock::cli
