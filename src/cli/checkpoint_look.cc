// penstock checkpoint list, show.
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/open_source.h"
#include "cli/checkpoint_places.h"
#include "cli/commands.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using checkpoint::Found;
using checkpoint::Reader;
using checkpoint::TensorInfo;
using tune::doctor::printable;

std::string age_of(int64_t saved_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Nanoseconds age = std::chrono::duration_cast<Nanoseconds>(now) - Nanoseconds(saved_ns);
  return format_duration(std::max(age, Nanoseconds(0)));
}

nlohmann::json found_json(const Found& found) {
  return {{"step", found.step},
          {"path", found.path},
          {"bytes", found.bytes},
          {"tensors", found.tensors},
          {"saved_ns", found.saved_ns},
          {"damage", found.damage ? nlohmann::json(found.damage->detail) : nlohmann::json()}};
}

// Where else each step is.
using Elsewhere = std::map<uint64_t, std::vector<std::string>>;

Result<Elsewhere> look_elsewhere(io::FileSystem& fs, const std::vector<std::string>& places) {
  Elsewhere found;
  for (const std::string& place : places) {
    const Result<std::vector<CheckpointTarget>> there = find_checkpoints(fs, place, std::nullopt);
    if (!there.ok()) return there.error().with_context("--also");
    for (const CheckpointTarget& target : *there) {
      const Found one = describe_target(target);
      if (!one.damage) found[one.step].push_back(place);
    }
  }
  return found;
}

std::string state_of(const Found& found, const std::vector<std::string>& places) {
  if (found.damage) return "damaged: " + printable(found.damage->detail);
  if (places.empty()) return "complete";
  return fmt::format("complete; also in {}", printable(fmt::format("{}", fmt::join(places, ", "))));
}

std::string shape_text(const TensorInfo& tensor) {
  return fmt::format("{}[{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

nlohmann::json tensor_json(const TensorInfo& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes},
          {"file", tensor.file},
          {"offset", tensor.offset},
          {"xxh3", fmt::format("{:016x}", tensor.hash)}};
}

int show_one(const Reader& reader, bool json) {
  if (json) {
    nlohmann::json tensors = nlohmann::json::array();
    for (const TensorInfo& tensor : reader.tensors()) tensors.push_back(tensor_json(tensor));
    return checkpoint_print("show",
                            checkpoint_json({{"schema", 1},
                                             {"step", reader.step()},
                                             {"path", reader.path()},
                                             {"metadata", reader.metadata()},
                                             {"tensors", tensors}}),
                            kExitOk);
  }
  std::string text = fmt::format("{}: step {}\n", printable(reader.path()), reader.step());
  for (const auto& [key, value] : reader.metadata()) {
    text += fmt::format("  {} = {}\n", printable(key), printable(value));
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    text += fmt::format("{:>10}  {:<24} {}\n", format_size(tensor.bytes), shape_text(tensor),
                        printable(tensor.name));
  }
  return checkpoint_print("show", text, kExitOk);
}

struct Difference {
  std::string name;
  std::string_view kind;  // "added", "removed", "reshaped", "changed".
};

// By checksums: nothing is read but the manifests.
std::vector<Difference> differences(const Reader& from, const Reader& to) {
  std::map<std::string_view, const TensorInfo*> before;
  for (const TensorInfo& tensor : from.tensors()) before[tensor.name] = &tensor;
  std::vector<Difference> found;
  for (const TensorInfo& tensor : to.tensors()) {
    const auto was = before.find(tensor.name);
    if (was == before.end()) {
      found.push_back({tensor.name, "added"});
      continue;
    }
    if (was->second->shape != tensor.shape || was->second->dtype != tensor.dtype) {
      found.push_back({tensor.name, "reshaped"});
    } else if (was->second->hash != tensor.hash) {
      found.push_back({tensor.name, "changed"});
    }
    before.erase(was);
  }
  for (const auto& [name, tensor] : before) found.push_back({std::string(name), "removed"});
  return found;
}

int show_difference(const Reader& from, const Reader& to, bool json) {
  const std::vector<Difference> found = differences(from, to);
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Difference& one : found) list.push_back({{"name", one.name}, {"kind", one.kind}});
    return checkpoint_print(
        "show",
        checkpoint_json(
            {{"schema", 1}, {"from", from.step()}, {"to", to.step()}, {"tensors", list}}),
        kExitOk);
  }
  std::string text = fmt::format("step {} to step {}: {} of {} tensors differ\n", from.step(),
                                 to.step(), found.size(), to.tensors().size());
  for (const Difference& one : found)
    text += fmt::format("  {:<9} {}\n", one.kind, printable(one.name));
  return checkpoint_print("show", text, kExitOk);
}

}  // namespace

int checkpoint_list(io::FileSystem& fs, CheckpointArguments& arguments) {
  const auto targets = find_checkpoints(fs, arguments.path, arguments.step);
  if (!targets.ok()) return checkpoint_failed("list", targets.error());
  Result<Elsewhere> elsewhere = look_elsewhere(fs, arguments.also);
  if (!elsewhere.ok()) return checkpoint_failed("list", elsewhere.error());
  bool whole = true;
  nlohmann::json list = nlohmann::json::array();
  std::string text = fmt::format("{:>12}  {:>10}  {:>9}  {:>12}  {}\n", "step", "size", "tensors",
                                 "saved", "state");
  for (const CheckpointTarget& target : *targets) {
    const Found one = describe_target(target);
    const std::vector<std::string>& places = (*elsewhere)[one.step];
    whole = whole && !one.damage;
    list.push_back(found_json(one));
    list.back()["also_in"] = places;
    const bool known = !one.damage;
    text +=
        fmt::format("{:>12}  {:>10}  {:>9}  {:>12}  {}\n", one.step,
                    known ? format_size(one.bytes) : "", known ? std::to_string(one.tensors) : "",
                    known ? age_of(one.saved_ns) + " ago" : "", state_of(one, places));
  }
  if (arguments.json) text = checkpoint_json({{"schema", 1}, {"checkpoints", list}});
  return checkpoint_print("list", text, whole ? kExitOk : kExitFailed);
}

int checkpoint_show(io::FileSystem& fs, CheckpointArguments& arguments) {
  const auto open = [&](std::optional<uint64_t> step) -> Result<std::unique_ptr<Reader>> {
    const auto targets = PENSTOCK_TRY(find_checkpoints(fs, arguments.path, step));
    // The newest that can be read.
    Result<std::unique_ptr<Reader>> reader =
        checkpoint::open_source(targets[0].source(), targets[0].step);
    for (size_t i = 1; i < targets.size() && !reader.ok(); ++i)
      reader = checkpoint::open_source(targets[i].source(), targets[i].step);
    return reader;
  };
  const auto reader = open(arguments.step);
  if (!reader.ok()) return checkpoint_failed("show", reader.error());
  if (!arguments.diff) return show_one(**reader, arguments.json);
  const auto other = open(arguments.diff);
  if (!other.ok()) return checkpoint_failed("show", other.error());
  return show_difference(**reader, **other, arguments.json);
}

}  // namespace penstock::cli
