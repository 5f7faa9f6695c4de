#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "penstock/loader.h"

namespace penstock::cli {

// What batches of `penstock load` have.
struct FieldArguments {
  uint32_t image = 0;  // Height and width; 0: none.
  std::string image_from = "jpg,jpeg,png";
  std::string crop = "none";
  std::string dtype = "float32";
  std::string layout = "CHW";
  std::vector<std::string> ints;
  std::vector<std::string> texts;
  std::vector<std::string> bytes;
};

void add_field_options(CLI::App& command, FieldArguments& arguments);
// kInvalid for what makes no sense. Opens the dataset when nothing was asked for, to see what it has.
Result<std::vector<loader::Field>> make_fields(const FieldArguments& arguments,
                                               const std::vector<std::string>& sources,
                                               const loader::LoaderOptions& options);

}  // namespace penstock::cli
