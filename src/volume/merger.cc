#include "volume/merger.h"

#include <algorithm>

#include "base/log.h"

namespace penstock::volume {

namespace {

constexpr size_t kFilesMax = 10'000;
constexpr uint64_t kCreditMax = kGiB;
// Rows are asked for in such parts of a file.
constexpr uint64_t kMergeWindow = kMiB;
// Of a run of pieces: more than one part in so many is large.
constexpr uint64_t kLargeShare = 8;

bool is_small(const meta::Extent& extent) {
  return extent.chunk != meta::kZeros && extent.length <= kMergedPieceMax;
}

// It was changed, or went, since it was read.
bool is_past(const Error& error) {
  return error.code == ErrorCode::kChanged || error.code == ErrorCode::kNotFound;
}

}  // namespace

void Merger::note(const VolumeUuid& volume, meta::Ino ino, uint64_t offset, uint64_t length) {
  if (length > kMergedPieceMax) return;
  const std::lock_guard lock(mutex_);
  credit_ = std::min(credit_ + length, kCreditMax);
  // Most small files are written once. Where more comes, it is found from there.
  if (offset == 0) return;
  const File file{volume, ino};
  auto at = files_.find(file);
  if (at == files_.end()) {
    if (files_.size() >= kFilesMax) return;
    at = files_.emplace(file, Range{}).first;
  }
  at->second.begin = std::min(at->second.begin, offset);
  at->second.end = std::max(at->second.end, offset + length);
}

uint64_t Merger::credit() {
  const std::lock_guard lock(mutex_);
  return credit_;
}

// There is as much: it goes up until then, if anything.
void Merger::spend(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  credit_ -= bytes;
  spent_ += bytes;
}

Result<uint64_t> Merger::run(Deadline deadline) {
  const std::lock_guard running(running_);
  std::map<File, Range> files;
  {
    const std::lock_guard lock(mutex_);
    if (files_.empty()) return uint64_t{0};
    files.swap(files_);
    spent_ = 0;
  }
  const std::map<File, Range> before = files;
  pack_ = packer_.begin();
  packed_.clear();
  const Result<uint64_t> merged = merge_files(files, deadline);
  pack_ = {};
  // What is left of them is for the next time; all of them where nothing came of it.
  const std::lock_guard lock(mutex_);
  if (!merged.ok()) credit_ = std::min(credit_ + spent_, kCreditMax);
  for (const auto& [file, range] : merged.ok() ? files : before) {
    Range& again = files_[file];
    again = {std::min(again.begin, range.begin), std::max(again.end, range.end)};
  }
  return merged;
}

Result<uint64_t> Merger::merge_files(std::map<File, Range>& files, Deadline deadline) {
  while (!files.empty()) {
    const auto file = files.begin();
    const Result<bool> fits = gather(file->first, file->second);
    if (!fits.ok() && !is_past(fits.error())) return fits.error();
    if (fits.ok() && !*fits) break;
    files.erase(file);
  }
  if (packed_.empty()) return uint64_t{0};
  PENSTOCK_TRY(packer_.store_pack(pack_, {.deadline = deadline}));
  return change_rows();
}

Result<meta::Namespace*> Merger::names_of(const VolumeUuid& volume) {
  if (const auto found = names_.find(volume); found != names_.end()) return found->second.get();
  for (const std::string& name : PENSTOCK_TRY(database_.volumes())) {
    std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_.open(name));
    const VolumeUuid uuid = names->settings().uuid;
    names_.insert_or_assign(uuid, std::move(names));
  }
  const auto found = names_.find(volume);
  if (found != names_.end()) return found->second.get();
  return make_error(ErrorCode::kNotFound, "the volume was removed");
}

void Merger::Run::trim() {
  size_t first = 0;
  size_t last = extents.size();
  const auto is_large = [&](const meta::Extent& extent) {
    return extent.length * kLargeShare > bytes;
  };
  while (first < last && is_large(extents[first])) bytes -= extents[first++].length;
  while (first < last && is_large(extents[last - 1])) bytes -= extents[--last].length;
  extents.erase(extents.begin() + static_cast<ptrdiff_t>(last), extents.end());
  extents.erase(extents.begin(), extents.begin() + static_cast<ptrdiff_t>(first));
}

bool Merger::Run::is_worth_it() const {
  const auto largest = std::ranges::max_element(extents, {}, &meta::Extent::length);
  return extents.size() >= kMergedPiecesMin && bytes >= 2 * largest->length;
}

uint64_t Merger::Run::cut_to(uint64_t credit, bool history) {
  uint64_t price = 0;
  auto first = extents.end();
  for (; first != extents.begin(); --first) {
    const meta::Extent& extent = *std::prev(first);
    if (history || !is_journal(extent.place.object)) price += extent.length;
    if (price > credit) {
      price -= extent.length;
      break;
    }
  }
  extents.erase(extents.begin(), first);
  bytes = 0;
  for (const meta::Extent& extent : extents) bytes += extent.length;
  return price;
}

// From a bit before what was written: what is left there may now be enough to be merged.
Result<bool> Merger::gather(const File& file, Range& range) {
  meta::Namespace* const names = PENSTOCK_TRY(names_of(file.first));
  const Target target{names, file.second, names->settings().retention != Nanoseconds(0)};
  range.begin = range.begin / kMergeWindow * kMergeWindow;
  Run run;
  for (uint64_t at = range.begin; at < range.end; at += kMergeWindow) {
    if (PENSTOCK_TRY(gather_window(target, at, run))) continue;
    range.begin = run.begin();
    return false;
  }
  if (finish(target, run)) return true;
  range.begin = run.begin();
  return false;
}

// Goes on with `run`, which stays open at the end. False: it is complete, and does not fit in.
Result<bool> Merger::gather_window(const Target& target, uint64_t begin, Run& run) {
  for (const meta::Extent& extent :
       PENSTOCK_TRY(target.names->extents(target.ino, begin, kMergeWindow))) {
    if (extent.offset < run.end()) continue;  // It reached into the window before, too.
    const bool continues = is_small(extent) && extent.offset == run.end() &&
                           run.bytes + extent.length <= kMergedBytesMax;
    if (!continues && !finish(target, run)) return false;
    if (!is_small(extent)) continue;
    run.extents.push_back(extent);
    run.bytes += extent.length;
  }
  return true;
}

// The run is in the pack, or not worth it, and begins anew. False: it is for the next pack.
bool Merger::finish(const Target& target, Run& run) {
  Run done = run;
  done.trim();
  const uint64_t price = done.cut_to(credit(), target.history);
  const bool worth = done.is_worth_it();
  if (worth && pack_.bytes.size() + done.bytes > packer_.pack_bytes()) return false;
  run = {};
  if (!worth) return true;
  spend(price);
  std::vector<std::byte> raw(done.bytes);
  // What is damaged is told to whoever reads it; what was moved is looked for the next time.
  if (!reader_.read(done.extents, done.begin(), raw).ok()) return true;
  if (!packer_.add(pack_, raw).ok()) return true;
  packed_.push_back({target, std::move(done.extents)});
  return true;
}

// Where it is not what it was any more, the bytes in the object are garbage from the beginning.
Result<uint64_t> Merger::change_rows() {
  uint64_t bytes = 0;
  size_t extents = 0;
  for (size_t i = 0; i < packed_.size(); ++i) {
    const Packed& packed = packed_[i];
    const Result<void> merged =
        packed.target.names->merge(packed.target.ino, packed.extents, pack_.places[i]);
    if (!merged.ok() && !is_past(merged.error())) return merged.error();
    bytes += pack_.places[i].raw;
    if (!merged.ok()) continue;
    extents += packed.extents.size();
    VolumeMetrics::global().merged_bytes.add(pack_.places[i].raw);
  }
  VolumeMetrics::global().merged_pieces.add(extents);
  log_debug("small pieces of files were merged",
            {{"pieces", extents}, {"chunks", packed_.size()}, {"bytes", bytes}});
  return bytes;
}

}  // namespace penstock::volume
