#include "checkpoint/examine.h"

#include <fmt/core.h>

namespace penstock::checkpoint {

namespace {

Result<Manifest> read_manifest(Source& source, std::optional<uint64_t> step) {
  const Result<std::string> text = source.read_text(std::string(kManifestName), kManifestBytesMax);
  if (!text.ok()) {
    if (text.error().code != ErrorCode::kNotFound) return text.error();
    return make_error(ErrorCode::kCorrupt, "it has no manifest");
  }
  Manifest manifest = PENSTOCK_TRY(parse_manifest(*text));
  if (!step || manifest.step == *step) return manifest;
  return make_error(ErrorCode::kCorrupt, fmt::format("its manifest is of step {}", manifest.step));
}

// Sizes alone: what can be told without reading all of it.
Result<void> check_files(Source& source, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    const Result<uint64_t> size = source.size(file.name);
    if (!size.ok() && size.error().code == ErrorCode::kNotFound) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{} is missing", file.name));
    }
    if (!size.ok()) return size.error();
    if (*size == file.bytes) continue;
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{} has {} bytes, not {}", file.name, *size, file.bytes));
  }
  return {};
}

}  // namespace

Result<Manifest> examine(Source& source, std::optional<uint64_t> step) {
  Result<Manifest> manifest = read_manifest(source, step);
  if (!manifest.ok()) return manifest.error().with_context(source.path());
  const Result<void> checked = check_files(source, *manifest);
  if (!checked.ok()) return checked.error().with_context(source.path());
  return manifest;
}

Found describe(const std::string& path, uint64_t step, const Result<Manifest>& manifest) {
  Found found{.step = step, .path = path};
  if (!manifest.ok()) {
    found.damage = manifest.error();
    return found;
  }
  found.saved_ns = manifest->saved_ns;
  for (const ManifestFile& file : manifest->files) {
    found.bytes += file.bytes;
    found.tensors += file.tensors.size();
  }
  return found;
}

}  // namespace penstock::checkpoint
