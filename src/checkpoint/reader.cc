#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "checkpoint/directory.h"
#include "checkpoint/examine.h"
#include "checkpoint/file_check.h"
#include "checkpoint/loading.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/open_source.h"
#include "checkpoint/plan.h"
#include "penstock/checkpoint.h"
#include "penstock/frame.h"

namespace penstock::checkpoint {

namespace {

Error damaged_tensor(const std::string& path, const TensorInfo& tensor) {
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("{}: tensor '{}' ({} at {} of {}) is damaged: its checksum does not match", path,
                  tensor.name, format_size(tensor.bytes), tensor.offset, tensor.file));
}

class SourceReader final : public Reader {
 public:
  SourceReader(std::unique_ptr<Source> source, Manifest manifest)
      : source_(std::move(source)), manifest_(std::move(manifest)) {
    for (size_t f = 0; f < manifest_.files.size(); ++f) {
      const std::vector<TensorInfo>& tensors = manifest_.files[f].tensors;
      tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
      file_of_.resize(tensors_.size(), f);
    }
  }

  uint64_t step() const override { return manifest_.step; }
  const std::string& path() const override { return source_->path(); }
  const std::vector<std::string>& trees() const override { return manifest_.trees; }
  const std::map<std::string, std::string>& metadata() const override { return manifest_.metadata; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  Result<void> load(std::span<const LoadTarget> wanted) override;
  std::vector<Error> verify() override;

 private:
  Result<std::vector<Range>> ranges_of(std::span<const LoadTarget> wanted) const;
  std::vector<Error> verify_file(size_t file);

  const std::unique_ptr<Source> source_;
  const Manifest manifest_;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> file_of_;
};

Result<std::vector<Range>> SourceReader::ranges_of(std::span<const LoadTarget> wanted) const {
  std::vector<Range> ranges;
  ranges.reserve(wanted.size());
  for (const auto& [tensor, into] : wanted) {
    if (tensor >= tensors_.size() || into.size() != tensors_[tensor].bytes)
      return make_error(ErrorCode::kInvalid, "a target is not as large as its tensor");
    ranges.push_back({file_of_[tensor], tensors_[tensor].offset, into});
  }
  return ranges;
}

Result<void> SourceReader::load(std::span<const LoadTarget> wanted) {
  const std::vector<Range> ranges = PENSTOCK_TRY(ranges_of(wanted));
  std::vector<std::string> files;
  for (const ManifestFile& file : manifest_.files) files.push_back(file.name);
  std::mutex mutex;
  std::vector<size_t> damaged;
  const Result<void> done = load_ranges(*source_, files, ranges, [&](size_t i) {
    if (codec::hash_bytes(wanted[i].into) == tensors_[wanted[i].tensor].hash) return;
    std::lock_guard lock(mutex);
    damaged.push_back(wanted[i].tensor);
  });
  if (!done.ok()) return done.error().with_context(path());
  if (damaged.empty()) return {};
  const size_t first = *std::ranges::min_element(damaged);
  Error error = damaged_tensor(path(), tensors_[first]);
  if (damaged.size() > 1) error.detail += fmt::format("; so are {} others", damaged.size() - 1);
  return error;
}

std::vector<Error> SourceReader::verify_file(size_t index) {
  const ManifestFile& entry = manifest_.files[index];
  const auto failed = [&](const Error& error) {
    return std::vector<Error>{error.with_context(join(path(), entry.name))};
  };
  const Result<std::unique_ptr<SourceFile>> file = source_->open(entry.name);
  if (!file.ok()) return failed(file.error());
  const auto buffers = io::BufferProvider::create({.budget_bytes = 2 * kPieceBytes});
  if (!buffers.ok()) return failed(buffers.error());
  const Result<io::Buffer> buffer = (*buffers)->take(kPieceBytes);
  if (!buffer.ok()) return failed(buffer.error());
  FileCheck check(entry);
  for (uint64_t offset = 0; offset < entry.bytes; offset += kPieceBytes) {
    const Result<size_t> got = (*file)->read(offset, buffer->bytes());
    if (!got.ok()) return failed(got.error());
    const uint64_t end = std::min(entry.bytes, offset + kPieceBytes);
    if (offset + *got < end) return failed(make_error(ErrorCode::kCorrupt, "it ends too early"));
    check.add(offset, buffer->bytes().first(end - offset));
  }
  std::vector<Error> errors;
  if (!check.header_is_right()) {
    errors.push_back(
        make_error(ErrorCode::kCorrupt,
                   fmt::format("{}: the header of {} (at 0) is damaged: its checksum does "
                               "not match",
                               path(), entry.name)));
  }
  for (const size_t i : check.wrong_tensors())
    errors.push_back(damaged_tensor(path(), entry.tensors[i]));
  return errors;
}

std::vector<Error> SourceReader::verify() {
  std::vector<Error> errors;
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    std::vector<Error> found = verify_file(i);
    errors.insert(errors.end(), found.begin(), found.end());
  }
  return errors;
}

}  // namespace

Result<std::unique_ptr<Reader>> open_source(std::unique_ptr<Source> source,
                                            std::optional<uint64_t> step) {
  Manifest manifest = PENSTOCK_TRY(examine(*source, step));
  return std::unique_ptr<Reader>(
      std::make_unique<SourceReader>(std::move(source), std::move(manifest)));
}

Result<std::vector<Found>> list_checkpoints(io::FileSystem& fs, const std::string& directory) {
  std::vector<uint64_t> steps = PENSTOCK_TRY(list_steps(fs, directory));
  std::ranges::reverse(steps);
  std::vector<Found> found;
  for (const uint64_t step : steps) {
    const auto source = directory_source(fs, join(directory, step_name(step)));
    found.push_back(describe(source->path(), step, examine(*source, step)));
  }
  return found;
}

Result<std::unique_ptr<Reader>> open_checkpoint(io::FileSystem& fs, const std::string& directory,
                                                uint64_t step) {
  const std::string path = join(directory, step_name(step));
  const Result<io::FileInfo> there = fs.stat(path);
  if (!there.ok()) return there.error().with_context(fmt::format("step {}", step));
  return open_source(directory_source(fs, path), step);
}

Result<std::unique_ptr<Reader>> open_checkpoint_at(io::FileSystem& fs, const std::string& path) {
  PENSTOCK_TRY(fs.stat(path));
  return open_source(directory_source(fs, path), std::nullopt);
}

Result<std::unique_ptr<Reader>> open_newest(io::FileSystem& fs, const std::string& directory,
                                            std::vector<Found>* damaged) {
  std::vector<uint64_t> steps = PENSTOCK_TRY(list_steps(fs, directory));
  std::ranges::reverse(steps);
  for (const uint64_t step : steps) {
    auto source = directory_source(fs, join(directory, step_name(step)));
    Result<Manifest> manifest = examine(*source, step);
    if (manifest.ok()) {
      return std::unique_ptr<Reader>(
          std::make_unique<SourceReader>(std::move(source), std::move(*manifest)));
    }
    if (damaged != nullptr) damaged->push_back(describe(source->path(), step, manifest));
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: no checkpoint {}", directory,
                                steps.empty() ? "is there" : "there can be read"));
}

}  // namespace penstock::checkpoint
