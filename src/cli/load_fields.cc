#include "cli/load_fields.h"

#include <fmt/core.h>

namespace penstock::cli {

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<decode::Crop> parse_crop(const std::string& name) {
  if (name == "none") return decode::Crop::kNone;
  if (name == "center") return decode::Crop::kCenter;
  if (name == "random") return decode::Crop::kRandom;
  return make_error(ErrorCode::kInvalid, fmt::format("--crop {}: none, center or random", name));
}

Result<loader::Field> image_field(const FieldArguments& arguments) {
  loader::Field field{
      .name = "image", .kind = loader::FieldKind::kImage, .from = split(arguments.image_from)};
  field.image.height = field.image.width = arguments.image;
  field.image.crop = PENSTOCK_TRY(parse_crop(arguments.crop));
  field.image.flip = field.image.crop == decode::Crop::kRandom ? 0.5 : 0;
  field.image.dtype = PENSTOCK_TRY(decode::parse_dtype(arguments.dtype));
  if (arguments.layout != "CHW" && arguments.layout != "HWC")
    return make_error(ErrorCode::kInvalid,
                      fmt::format("--layout {}: CHW or HWC", arguments.layout));
  field.image.layout = arguments.layout == "CHW" ? decode::Layout::kChw : decode::Layout::kHwc;
  return field;
}

// All that the first sample has, as bytes.
Result<std::vector<loader::Field>> all_fields(const std::vector<std::string>& sources,
                                              const loader::LoaderOptions& options) {
  const auto dataset = PENSTOCK_TRY(data::Dataset::open(sources, options.open));
  const data::SamplePlace place = PENSTOCK_TRY(dataset->place(0));
  std::vector<loader::Field> fields;
  for (const data::Member& member : place.members) {
    const std::string& name = place.index->fields()[member.field];
    fields.push_back({.name = name, .kind = loader::FieldKind::kBytes, .from = {name}});
  }
  return fields;
}

}  // namespace

void add_field_options(CLI::App& command, FieldArguments& arguments) {
  command.add_option("--image", arguments.image, "Decode images, to so many pixels each way")
      ->type_name("SIZE");
  command.add_option("--image-from", arguments.image_from, "Their extensions")->type_name("EXT,…");
  command.add_option("--crop", arguments.crop, "none, center or random (with flips)")
      ->type_name("HOW");
  command.add_option("--dtype", arguments.dtype, "uint8, float16, bfloat16 or float32");
  command.add_option("--layout", arguments.layout, "CHW or HWC");
  command.add_option("--int", arguments.ints, "A number, from this extension")->type_name("EXT");
  command.add_option("--text", arguments.texts, "Text, from this extension")->type_name("EXT");
  command.add_option("--bytes", arguments.bytes, "Bytes, from this extension")->type_name("EXT");
}

Result<std::vector<loader::Field>> make_fields(const FieldArguments& arguments,
                                               const std::vector<std::string>& sources,
                                               const loader::LoaderOptions& options) {
  std::vector<loader::Field> fields;
  if (arguments.image > 0) fields.push_back(PENSTOCK_TRY(image_field(arguments)));
  const auto add = [&](const std::vector<std::string>& names, loader::FieldKind kind) {
    for (const std::string& name : names)
      fields.push_back({.name = name, .kind = kind, .from = split(name)});
  };
  add(arguments.ints, loader::FieldKind::kInt);
  add(arguments.texts, loader::FieldKind::kText);
  add(arguments.bytes, loader::FieldKind::kBytes);
  if (fields.empty()) return all_fields(sources, options);
  return fields;
}

}  // namespace penstock::cli
