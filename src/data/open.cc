#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "data/dataset.h"

namespace penstock::data {

namespace {

constexpr size_t kThreadsMax = 64;

constexpr std::array<std::string_view, 5> kFormatNames = {"auto", "tar", "tfrecord", "folder",
                                                          "files"};

IndexSettings settings_for(const OpenOptions& options, Format format) {
  IndexSettings settings;
  settings.format = format;
  settings.index_dir = options.index_dir.empty() ? default_index_dir() : options.index_dir;
  settings.real_file_system = options.file_system == nullptr;
  settings.threads = std::clamp<size_t>(
      options.threads == 0 ? 2 * available_cores() : options.threads, 1, kThreadsMax);
  settings.on_progress = options.on_progress;
  settings.cancel = options.cancel;
  return settings;
}

}  // namespace

std::string_view format_name(Format format) {
  return kFormatNames[static_cast<size_t>(format)];
}

Result<Format> parse_format(std::string_view name) {
  const auto at = std::ranges::find(kFormatNames, name);
  if (at != kFormatNames.end()) return static_cast<Format>(at - kFormatNames.begin());
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("'{}' is no format: expected auto, tar, tfrecord, folder or files", name));
}

Result<std::unique_ptr<Dataset>> Dataset::open(const std::vector<std::string>& addresses,
                                               const OpenOptions& options) {
  io::FileSystem* fs = options.file_system;
  if (fs == nullptr) fs = PENSTOCK_TRY(io::process_file_system());
  auto found = std::make_unique<Found>(PENSTOCK_TRY(find_shards(addresses, options, *fs)));
  std::unique_ptr<IndexSet> indexes;
  if (!found->shards.empty()) {
    indexes = std::make_unique<IndexSet>(*fs, found->sources, found->shards,
                                         settings_for(options, found->format));
    PENSTOCK_TRY(indexes->prepare());
  }
  std::unique_ptr<Dataset> dataset =
      std::make_unique<DatasetImpl>(std::move(found), std::move(indexes), options);
  if (dataset->samples() > 0) return dataset;
  return make_error(ErrorCode::kInvalid,
                    fmt::format("there are no samples in {}{}, taken for {}: if it is something "
                                "else, say so by format (tar, tfrecord, folder, files)",
                                addresses[0], addresses.size() > 1 ? " and the others" : "",
                                format_name(dataset->format())));
}

}  // namespace penstock::data
