// Which sample a file belongs to, by its name: the rules of WebDataset, for tars and for loose files.
// Threads: all functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock::data {

struct SampleName {
  std::string_view key;        // The folder and the name up to its first dot.
  std::string_view extension;  // What follows that dot, as it is written.
};

// "a.v1/b.seg.png" is "a.v1/b" and "seg.png". Nothing for names that belong to no sample: those
// without a dot, and those of which nothing is left in front of it.
std::optional<SampleName> split_name(std::string_view name);

// "__x__" and what is below "__x__/": about the shard, not of a sample.
bool is_metadata_name(std::string_view name);

// Of ASCII letters only.
std::string lower_case(std::string_view text);

// After the last '/'.
std::string_view base_name(std::string_view path);

// What torchvision's ImageFolder takes for an image.
bool is_image_name(std::string_view name);

}  // namespace penstock::data
