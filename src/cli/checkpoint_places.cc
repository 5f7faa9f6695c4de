#include "cli/checkpoint_places.h"

#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/directory.h"
#include "checkpoint/examine.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/replica.h"

namespace penstock::cli {

namespace {

using checkpoint::directory_source;
using checkpoint::join;
using checkpoint::Replica;
using checkpoint::step_name;

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// "run1/step-0000000010" is step 10 of run1. kInvalid where another step is asked for.
Result<std::string> split_step(const std::string& path, std::optional<uint64_t>& step) {
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  const std::optional<uint64_t> named = checkpoint::parse_step_name(name);
  if (!named) return path;
  if (step && step != named) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is step {}: --step {} asks for another",
                                                       path, *named, *step));
  }
  step = named;
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

Result<std::vector<CheckpointTarget>> find_remote(io::FileSystem& fs, const std::string& path) {
  const std::shared_ptr<Replica> replica = PENSTOCK_TRY(Replica::open(path, fs));
  std::vector<CheckpointTarget> found;
  for (const uint64_t step : PENSTOCK_TRY(replica->steps())) {
    found.push_back(
        {step, join(path, step_name(step)), [replica, step] { return replica->source(step); }});
  }
  return found;
}

Result<std::vector<CheckpointTarget>> find_local(io::FileSystem& fs, const std::string& path) {
  std::vector<CheckpointTarget> found;
  const auto add = [&](std::optional<uint64_t> step, const std::string& at) {
    found.push_back({step, at, [&fs, at] { return directory_source(fs, at); }});
  };
  if (fs.stat(join(path, checkpoint::kManifestName)).ok()) {
    add(std::nullopt, path);
    return found;
  }
  for (const uint64_t step : PENSTOCK_TRY(checkpoint::list_steps(fs, path)))
    add(step, join(path, step_name(step)));
  return found;
}

}  // namespace

// Of a scheme that nobody knows too: open_store() says what there is.
bool is_in_store(const std::string& path) {
  return path.find("://") != std::string::npos;
}

Result<std::string> find_run(io::FileSystem& fs, const std::string& given,
                             std::optional<uint64_t>& step) {
  if (given.empty()) return make_error(ErrorCode::kInvalid, "PATH is empty");
  const std::string path = without_slash(given);
  if (is_in_store(path)) return split_step(path, step);
  const io::FileInfo info = PENSTOCK_TRY(fs.stat(path));
  if (info.kind != io::FileKind::kDirectory) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is no directory", path));
  }
  return split_step(path, step);
}

Result<std::vector<CheckpointTarget>> find_checkpoints(io::FileSystem& fs, const std::string& given,
                                                       std::optional<uint64_t> step) {
  const std::string path = PENSTOCK_TRY(find_run(fs, given, step));
  std::vector<CheckpointTarget> found =
      is_in_store(path) ? PENSTOCK_TRY(find_remote(fs, path)) : PENSTOCK_TRY(find_local(fs, path));
  std::ranges::reverse(found);
  if (step) {
    std::erase_if(found, [&](const CheckpointTarget& one) { return one.step != step; });
  }
  if (!found.empty()) return found;
  return make_error(ErrorCode::kNotFound,
                    step ? fmt::format("{}: no checkpoint of step {}", path, *step)
                         : fmt::format("{}: no checkpoint is there", path));
}

checkpoint::Found describe_target(const CheckpointTarget& target) {
  const Result<checkpoint::Manifest> manifest = checkpoint::examine(*target.source(), target.step);
  const uint64_t step = manifest.ok() ? manifest->step : target.step.value_or(0);
  return checkpoint::describe(target.path, step, manifest);
}

}  // namespace penstock::cli
