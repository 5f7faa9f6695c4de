#include "checkpoint/piece_writer.h"

#include <algorithm>

#include "base/log.h"
#include "checkpoint/names.h"

namespace penstock::checkpoint {

namespace {

// Enough for any drive, and not so much that a failure or a limit is noticed late.
constexpr size_t kInFlightMax = 16;
// What is behind is caught up with while writes are under way, without letting those run dry.
constexpr size_t kHashedPerWrite = 2;

}  // namespace

PieceWriter::PieceWriter(Job& job, RateLimiter& limiter, bool sha256)
    : job_(job), limiter_(limiter) {
  for (FilePlan& file : job_.plan.files) hashes_.emplace_back(file.entry);
  if (sha256) sums_.resize(job_.plan.files.size());
}

PieceWriter::~PieceWriter() {
  (void)wait();
}

Result<void> PieceWriter::write_all() {
  const size_t count = job_.plan.pieces.size();
  // A piece that is not kept is gone when it is written.
  const bool keeps = job_.pieces.keeps();
  size_t hashed = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!keeps) PENSTOCK_TRY(hash(i));
    PENSTOCK_TRY(submit(i));
    // While the state is being copied the cores belong to that.
    for (size_t n = 0; keeps && job_.staged && n < kHashedPerWrite && hashed <= i; ++n)
      PENSTOCK_TRY(hash(hashed++));
  }
  while (keeps && hashed < count) PENSTOCK_TRY(hash(hashed++));
  finish_sums();
  return wait();
}

Result<void> PieceWriter::write_changed(const Manifest& before, const std::string& path) {
  std::vector<std::vector<size_t>> pieces_of(job_.plan.files.size());
  for (size_t i = 0; i < job_.plan.pieces.size(); ++i)
    pieces_of[job_.plan.pieces[i].file].push_back(i);
  for (size_t file = 0; file < pieces_of.size(); ++file) {
    for (const size_t i : pieces_of[file]) PENSTOCK_TRY(hash(i));
    const bool linked = PENSTOCK_TRY(link_unchanged(file, before, path));
    if (linked) continue;
    for (const size_t i : pieces_of[file]) PENSTOCK_TRY(submit(i));
  }
  finish_sums();
  return wait();
}

Result<bool> PieceWriter::link_unchanged(size_t file, const Manifest& before,
                                         const std::string& path) {
  const ManifestFile& entry = job_.plan.files[file].entry;
  const auto same = std::ranges::find_if(
      before.files, [&](const ManifestFile& other) { return same_content(other, entry); });
  if (same == before.files.end()) return false;
  const Result<void> linked = job_.attempt->link(file, join(path, same->name));
  if (linked.ok()) {
    job_.change_report([&](SaveReport& report) { report.linked_bytes += entry.bytes; });
    return true;
  }
  // Written, then. It may have been deleted meanwhile.
  if (linked.error().code == ErrorCode::kNotFound) return false;
  if (linked.error().code != ErrorCode::kUnsupported) return linked.error();
  log_once(LogLevel::kWarn, "checkpoint.links",
           "incremental checkpoints need a file system with hard links; all is written here");
  return false;
}

Result<void> PieceWriter::hash(size_t index) {
  const Piece& piece = job_.plan.pieces[index];
  const io::MemorySlice memory = PENSTOCK_TRY(job_.pieces.wait(index));
  const std::span<const std::byte> bytes(memory.data, piece.bytes);
  hashes_[piece.file].add(piece.offset, bytes);
  if (!sums_.empty()) sums_[piece.file].update(bytes);
  return {};
}

void PieceWriter::finish_sums() {
  for (size_t i = 0; i < sums_.size(); ++i) job_.plan.files[i].entry.sha256 = sums_[i].hex();
}

Result<void> PieceWriter::submit(size_t index) {
  const Piece& piece = job_.plan.pieces[index];
  io::MemorySlice memory = PENSTOCK_TRY(job_.pieces.wait(index));
  PENSTOCK_TRY(limiter_.acquire(static_cast<double>(piece.bytes)));
  PENSTOCK_TRY(enter());
  memory.size = padded(piece.bytes);
  job_.attempt->file(piece.file)
      .submit(io::IoRequest::write(piece.offset, memory, [this, index](const auto& done) {
        job_.pieces.written(index);
        job_.written_bytes.fetch_add(job_.plan.pieces[index].bytes, std::memory_order_relaxed);
        leave(done);
      }));
  return {};
}

Result<void> PieceWriter::enter() {
  std::unique_lock lock(mutex_);
  less_.wait(lock, [this] { return in_flight_ < kInFlightMax; });
  if (!first_.ok()) return first_;
  ++in_flight_;
  return {};
}

void PieceWriter::leave(const Result<size_t>& result) {
  std::lock_guard lock(mutex_);
  if (!result.ok() && first_.ok()) first_ = result.error();
  --in_flight_;
  less_.notify_all();
}

Result<void> PieceWriter::wait() {
  std::unique_lock lock(mutex_);
  less_.wait(lock, [this] { return in_flight_ == 0; });
  return first_;
}

}  // namespace penstock::checkpoint
