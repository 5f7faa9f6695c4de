#include "sync/staged_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace penstock::sync {

namespace {

constexpr size_t kVerifyBytes = 256 * kKiB;  // Stays in the processor's cache.

}  // namespace

Result<std::unique_ptr<StagedFile>> StagedFile::create(io::FileSystem& fs, std::string temporary,
                                                       std::string final_path, mode_t permissions) {
  std::unique_ptr<io::File> file =
      PENSTOCK_TRY(fs.open(temporary, {.access = io::Access::kReadWrite,
                                       .create = io::Create::kMustNotExist,
                                       .permissions = permissions,
                                       .follow_links = false}));
  std::unique_ptr<StagedFile> staged(
      new StagedFile(fs, std::move(temporary), std::move(final_path)));
  staged->file_ = std::move(file);
  return staged;
}

Result<std::unique_ptr<StagedFile>> StagedFile::create_link(io::FileSystem& fs,
                                                            std::string temporary,
                                                            std::string final_path,
                                                            const std::string& leads_to) {
  PENSTOCK_TRY(fs.make_symlink(leads_to, temporary));
  return std::unique_ptr<StagedFile>(
      new StagedFile(fs, std::move(temporary), std::move(final_path)));
}

StagedFile::~StagedFile() {
  file_.reset();
  if (!published_) (void)fs_.remove(temporary_);  // A failure costs only the space.
}

Result<void> StagedFile::write(uint64_t offset, std::span<const std::byte> bytes, bool verify) {
  PENSTOCK_TRY(file_->write(offset, bytes));
  if (!verify) return {};
  return verify_range(offset, bytes);
}

Result<void> StagedFile::verify_range(uint64_t offset, std::span<const std::byte> bytes) {
  thread_local std::vector<std::byte> seen(kVerifyBytes);
  while (!bytes.empty()) {
    const size_t step = std::min(bytes.size(), seen.size());
    const size_t got = PENSTOCK_TRY(file_->read(offset, std::span(seen).first(step)));
    if (got != step || std::memcmp(seen.data(), bytes.data(), step) != 0) {
      return make_error(
          ErrorCode::kCorrupt,
          fmt::format("{}: what was written at {} reads back differently", final_path_, offset),
          true);
    }
    offset += step;
    bytes = bytes.subspan(step);
  }
  return {};
}

Result<void> StagedFile::reserve(uint64_t size) {
  Result<void> reserved = file_->allocate(0, size);
  if (!reserved.ok() && reserved.error().code == ErrorCode::kUnsupported) return {};
  return reserved;
}

Result<void> StagedFile::finish(uint64_t size, std::optional<uint32_t> mode,
                                std::optional<int64_t> mtime_ns, bool sync) {
  const io::FileInfo info = PENSTOCK_TRY(file_->stat());
  if (info.size != size) {
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format("{}: {} bytes were written, and {} are there", final_path_, size, info.size),
        true);
  }
  size_ = size;
  if (mode || mtime_ns) PENSTOCK_TRY(file_->set_attributes(mode, mtime_ns));
  // A failure is final: the file is removed, never synced again.
  if (sync) PENSTOCK_TRY(file_->sync());
  synced_ = sync;
  PENSTOCK_TRY(file_->close());
  file_.reset();
  return {};
}

Result<void> StagedFile::publish(io::RenameMode mode) {
  PENSTOCK_TRY(fs_.rename(temporary_, final_path_, mode));
  published_ = true;
  return {};
}

}  // namespace penstock::sync
