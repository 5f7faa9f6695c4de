#include "checkpoint/replica.h"

#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/examine.h"
#include "checkpoint/file_check.h"
#include "checkpoint/names.h"
#include "checkpoint/plan.h"
#include "penstock/buffer.h"

namespace penstock::checkpoint {

namespace {

bool is_directory_address(const std::string& address) {
  return address.find(':') == std::string::npos || address.starts_with('/');
}

Error damaged(const Source& from, const std::string& file, const std::string& what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} of {} is damaged: it is not copied",
                                                     from.path(), what, file));
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::open(const std::string& address, io::FileSystem& fs) {
  const bool directory = is_directory_address(address);
  if (directory) PENSTOCK_TRY(make_directories_durably(fs, address));
  store::StoreOptions options;
  options.file_system = &fs;
  std::shared_ptr<store::ObjectStore> store = PENSTOCK_TRY(store::open_store(address, options));
  if (directory) return std::make_unique<Replica>(std::move(store), fs, address);
  return std::make_unique<Replica>(std::move(store));
}

std::unique_ptr<Source> Replica::source(uint64_t step) const {
  return store_source(store_, step_name(step));
}

Result<std::vector<uint64_t>> Replica::folders() {
  std::vector<uint64_t> found;
  store::ListOptions options;
  options.by_folder = true;
  options.prefix = "step-";
  while (true) {
    const store::ListPage page = PENSTOCK_TRY(store_->list(options));
    for (std::string_view folder : page.folders) {
      folder.remove_suffix(1);
      if (const std::optional<uint64_t> step = parse_step_name(folder)) found.push_back(*step);
    }
    if (!page.next) break;
    options.start_after = *page.next;
  }
  std::ranges::sort(found);
  return found;
}

Result<std::vector<uint64_t>> Replica::steps() {
  std::vector<uint64_t> there;
  for (const uint64_t step : PENSTOCK_TRY(folders())) {
    const Result<uint64_t> manifest = source(step)->size(std::string(kManifestName));
    if (manifest.ok()) there.push_back(step);
    if (!manifest.ok() && manifest.error().code != ErrorCode::kNotFound) return manifest.error();
  }
  return there;
}

// Only the manifest, which comes last, would tell of which attempt a file is that a killed copy left.
// So its bytes are compared: reading them costs less than sending them again.
Result<bool> Replica::has_file(const std::string& folder, const ManifestFile& file) {
  const std::unique_ptr<Source> source = store_source(store_, folder);
  const Result<uint64_t> size = source->size(file.name);
  if (!size.ok() && size.error().code == ErrorCode::kNotFound) return false;
  if (!size.ok()) return size.error();
  if (*size != file.bytes) return false;
  const std::unique_ptr<SourceFile> there = PENSTOCK_TRY(source->open(file.name));
  std::vector<std::byte> buffer(kPieceBytes);
  FileCheck check(file);
  for (uint64_t offset = 0; offset < file.bytes; offset += kPieceBytes) {
    const size_t wanted = std::min(kPieceBytes, file.bytes - offset);
    const size_t got = PENSTOCK_TRY(there->read(offset, std::span(buffer).first(wanted)));
    if (got < wanted) return false;
    check.add(offset, std::span(buffer).first(wanted));
  }
  return check.all_is_right();
}

Result<void> Replica::copy_file(Source& from, const std::string& folder, const ManifestFile& file,
                                const CopyOptions& copy) {
  const std::unique_ptr<SourceFile> source = PENSTOCK_TRY(from.open(file.name));
  store::PutOptions options;
  options.cancel = copy.stop;
  options.size = file.bytes;
  const std::unique_ptr<store::Upload> upload =
      PENSTOCK_TRY(store_->start_upload(join(folder, file.name), options));
  const std::shared_ptr<io::BufferProvider> buffers =
      PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = 2 * kPieceBytes}));
  const io::Buffer buffer = PENSTOCK_TRY(buffers->take(kPieceBytes));
  FileCheck check(file);
  for (uint64_t offset = 0; offset < file.bytes; offset += kPieceBytes) {
    const size_t wanted = std::min(kPieceBytes, file.bytes - offset);
    PENSTOCK_TRY(copy.limiter.acquire(static_cast<double>(wanted), kNoDeadline, copy.stop));
    const size_t got = PENSTOCK_TRY(source->read(offset, buffer.bytes().first(padded(wanted))));
    if (got < wanted) return damaged(from, file.name, "the end");
    check.add(offset, buffer.bytes().first(wanted));
    PENSTOCK_TRY(upload->write(buffer.bytes().first(wanted)));
    copy.moved(wanted);
  }
  if (!check.header_is_right()) return damaged(from, file.name, "the header");
  if (const std::vector<size_t> wrong = check.wrong_tensors(); !wrong.empty()) {
    return damaged(from, file.name, fmt::format("tensor '{}'", file.tensors[wrong[0]].name));
  }
  PENSTOCK_TRY(upload->finish());
  return {};
}

// What is there already under another step need not be sent.
Result<bool> Replica::copy_within(const Manifest& before, const std::string& folder,
                                  const ManifestFile& file) {
  const auto same = std::ranges::find_if(
      before.files, [&](const ManifestFile& other) { return same_content(other, file); });
  if (same == before.files.end()) return false;
  const Result<store::ObjectInfo> copied =
      store_->copy(join(step_name(before.step), same->name), join(folder, file.name));
  if (copied.ok()) return copied->size == file.bytes;
  if (copied.error().code == ErrorCode::kNotFound) return false;
  return copied.error();
}

// The newest that is there; nothing where there is none that can be read.
Result<std::optional<Manifest>> Replica::newest() {
  const std::vector<uint64_t> there = PENSTOCK_TRY(steps());
  if (there.empty()) return std::optional<Manifest>();
  Result<Manifest> manifest = examine(*source(there.back()), there.back());
  if (!manifest.ok()) return std::optional<Manifest>();
  return std::optional<Manifest>(std::move(*manifest));
}

Result<void> Replica::copy(Source& from, uint64_t step, const CopyOptions& copy) {
  const std::string text =
      PENSTOCK_TRY(from.read_text(std::string(kManifestName), kManifestBytesMax));
  const Manifest manifest = PENSTOCK_TRY(examine(from, step));
  const std::string folder = step_name(step);
  std::optional<Manifest> before;
  if (copy.incremental) before = PENSTOCK_TRY(newest());
  for (const ManifestFile& file : manifest.files) {
    const bool there = PENSTOCK_TRY(has_file(folder, file)) ||
                       (before && PENSTOCK_TRY(copy_within(*before, folder, file)));
    if (there) {
      copy.moved(file.bytes);
      continue;
    }
    PENSTOCK_TRY(copy_file(from, folder, file, copy));
  }
  // Or the manifest could survive a power cut that the data does not.
  PENSTOCK_TRY(store_->flush());
  store::PutOptions options;
  options.cancel = copy.stop;
  if (const std::string sums = sha256_sums(manifest, text); !sums.empty())
    PENSTOCK_TRY(store_->put(join(folder, kSumsName), std::as_bytes(std::span(sums)), options));
  PENSTOCK_TRY(store_->put(join(folder, kManifestName), std::as_bytes(std::span(text)), options));
  return store_->flush();
}

Result<void> Replica::remove(uint64_t step) {
  const std::string folder = step_name(step);
  PENSTOCK_TRY(store_->remove(join(folder, kManifestName)));
  PENSTOCK_TRY(store_->flush());
  std::vector<std::string> keys;
  PENSTOCK_TRY(store::for_each_object(*store_, folder + "/", [&](const store::ObjectInfo& object) {
    keys.push_back(object.key);
    return true;
  }));
  for (const std::string& key : keys) PENSTOCK_TRY(store_->remove(key));
  // What else is in it is not ours, and then it stays.
  if (fs_ != nullptr) (void)fs_->remove_directory(join(directory_, folder));
  return {};
}

Result<void> Replica::retire(const Retention& retention, uint64_t newest) {
  std::vector<uint64_t> whole = PENSTOCK_TRY(steps());
  std::erase_if(whole, [&](uint64_t step) { return step > newest; });
  for (const uint64_t step : steps_to_remove(whole, retention)) PENSTOCK_TRY(remove(step));
  if (whole.empty()) return {};
  // Halves of older ones: nobody will finish them.
  for (const uint64_t step : PENSTOCK_TRY(folders())) {
    const bool half = !std::ranges::binary_search(whole, step);
    if (half && step < whole.back()) PENSTOCK_TRY(remove(step));
  }
  return {};
}

}  // namespace penstock::checkpoint
