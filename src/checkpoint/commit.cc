#include "checkpoint/commit.h"

#include <fmt/core.h>

#include <span>

#include "base/log.h"
#include "checkpoint/attempt.h"
#include "checkpoint/names.h"

namespace penstock::checkpoint {

namespace {

Result<void> write_synced(io::FileSystem& fs, const std::string& path, std::string_view text) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(
      fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kMustNotExist}));
  PENSTOCK_TRY(file->write(0, std::as_bytes(std::span(text))));
  PENSTOCK_TRY(file->sync());
  return file->close();
}

void remove_or_warn(io::FileSystem& fs, const std::string& path) {
  const Result<void> removed = io::remove_tree(fs, path);
  if (removed.ok()) return;
  log_warn("something unfinished could not be removed",
           {{"path", path}, {"error", removed.error().detail}});
}

// Returns the path of what had the name before, which is to be removed; empty where nothing had it.
Result<std::string> take_name(io::FileSystem& fs, const Commit& commit, const std::string& path) {
  const std::string named = join(commit.directory, commit.name);
  if (!commit.replace || !fs.stat_link(named).ok()) {
    PENSTOCK_TRY(fs.rename(path, named, io::RenameMode::kNoReplace));
    return std::string();
  }
  const Result<void> exchanged = fs.rename(path, named, io::RenameMode::kExchange);
  if (exchanged.ok()) return path;
  if (exchanged.error().code != ErrorCode::kUnsupported) return exchanged.error();
  // Some network file systems. Nothing has the name for a moment: if that is the last, who opens the
  // directory next gives it back.
  const std::string aside = join(commit.directory, aside_name(commit.name));
  PENSTOCK_TRY(fs.rename(named, aside, io::RenameMode::kNoReplace));
  PENSTOCK_TRY(fs.sync_directory(commit.directory));
  const Result<void> taken = fs.rename(path, named, io::RenameMode::kNoReplace);
  if (taken.ok()) return aside;
  (void)fs.rename(aside, named, io::RenameMode::kNoReplace);
  return taken.error();
}

Result<std::string> write_and_name(io::FileSystem& fs, const Commit& commit,
                                   const Manifest& manifest, const std::string& path) {
  const std::string text = manifest_text(manifest);
  const std::string sums = sha256_sums(manifest, text);
  if (!sums.empty()) PENSTOCK_TRY(write_synced(fs, join(path, kSumsName), sums));
  PENSTOCK_TRY(write_synced(fs, join(path, kManifestName), text));
  PENSTOCK_TRY(fs.sync_directory(path));
  return take_name(fs, commit, path);
}

}  // namespace

Result<void> commit_attempt(io::FileSystem& fs, const Commit& commit, const Manifest& manifest) {
  const std::string path = attempt_path(commit.directory, commit.nonce);
  const Result<std::string> replaced = write_and_name(fs, commit, manifest, path);
  if (!replaced.ok()) {
    remove_or_warn(fs, path);
    return replaced.error();
  }
  PENSTOCK_TRY(fs.sync_directory(commit.directory));
  if (!replaced->empty()) remove_or_warn(fs, *replaced);
  return {};
}

Result<Manifest> merge_parts(const std::vector<std::string>& parts, const std::string& nonce) {
  Manifest whole;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    Result<Manifest> part = parse_manifest(parts[rank]);
    if (!part.ok()) return part.error().with_context(fmt::format("the part of rank {}", rank));
    if (part->nonce != nonce) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("the part of rank {} is of another attempt", rank));
    }
    if (rank > 0 && part->step != whole.step) {
      return make_error(ErrorCode::kInvalid, fmt::format("rank {} saves step {}, rank 0 step {}",
                                                         rank, part->step, whole.step));
    }
    whole.trees.push_back(part->trees.empty() ? "" : std::move(part->trees[0]));
    for (ManifestFile& file : part->files) whole.files.push_back(std::move(file));
    if (rank > 0) continue;
    whole.step = part->step;
    whole.saved_ns = part->saved_ns;
    whole.writer = part->writer;
    whole.metadata = std::move(part->metadata);
  }
  whole.nonce = nonce;
  return whole;
}

Result<bool> was_committed(io::FileSystem& fs, const Commit& commit) {
  const std::string path = join(join(commit.directory, commit.name), kManifestName);
  const Result<std::string> text = io::read_file(fs, path, kManifestBytesMax);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return false;
  if (!text.ok()) return text.error();
  const Result<Manifest> manifest = parse_manifest(*text);
  return manifest.ok() && manifest->nonce == commit.nonce;
}

}  // namespace penstock::checkpoint
