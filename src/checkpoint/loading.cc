#include "checkpoint/loading.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "checkpoint/plan.h"
#include "penstock/buffer.h"

namespace penstock::checkpoint {

namespace {

// Blocking reads, each of a piece: so many keep any drive busy while some of them copy or checksum what
// they have read.
constexpr size_t kReaders = 16;
// Smaller ones are read together with their neighbours, and copied: memory that was just made has huge
// pages only where it is large, and drives take small ones in pieces, which costs more than a copy.
constexpr uint64_t kStraightBytesMin = 32 * kMiB;
// What lies between two ranges is read along with them if it is less.
constexpr uint64_t kGapBytesMax = 64 * kKiB;

uint64_t aligned_down(uint64_t offset) {
  return offset / kDataAlignment * kDataAlignment;
}

// A part of a range that one read brings.
struct Part {
  size_t range = 0;
  uint64_t offset = 0;  // In the file.
  std::span<std::byte> into = {};
};

struct Read {
  size_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool straight = false;  // Into the memory of its only part.
  std::vector<Part> parts = {};
};

// Cuts ranges into reads, none across the boundary of a piece.
class ReadPlan {
 public:
  explicit ReadPlan(std::span<const Range> wanted) {
    std::vector<size_t> order(wanted.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto place = [&](size_t i) { return std::pair(wanted[i].file, wanted[i].offset); };
    std::ranges::sort(order, {}, place);
    for (const size_t i : order) add(i, wanted[i]);
    std::ranges::move(straight_, std::back_inserter(reads_));
    // In the order of the files, for drives that read ahead.
    std::ranges::sort(reads_, {},
                      [](const Read& read) { return std::pair(read.file, read.offset); });
  }

  std::vector<Read> take() { return std::move(reads_); }

 private:
  void add(size_t index, const Range& range) {
    const uint64_t begin = range.offset;
    const uint64_t end = begin + range.into.size();
    const uint64_t first = padded(begin);
    const uint64_t last = aligned_down(end);
    const auto address = reinterpret_cast<uintptr_t>(range.into.data());
    const bool alike = address % kDataAlignment == begin % kDataAlignment;
    if (!alike || last < first + kStraightBytesMin)
      return add_parts(index, range, begin, end, false);
    add_parts(index, range, begin, first, false);
    add_parts(index, range, first, last, true);
    add_parts(index, range, last, end, false);
  }

  void add_parts(size_t index, const Range& range, uint64_t begin, uint64_t end, bool straight) {
    for (uint64_t at = begin; at < end;) {
      const uint64_t to = std::min(end, at / kPieceBytes * kPieceBytes + kPieceBytes);
      const Part part{index, at, range.into.subspan(at - range.offset, to - at)};
      if (straight) {
        straight_.push_back({range.file, at, to - at, true, {part}});
      } else {
        add_bounced(range.file, part);
      }
      at = to;
    }
  }

  void add_bounced(size_t file, const Part& part) {
    const auto is_near = [&](const Read& read) {
      return read.file == file && read.offset / kPieceBytes == part.offset / kPieceBytes &&
             part.offset <= read.offset + read.bytes + kGapBytesMax;
    };
    if (reads_.empty() || !is_near(reads_.back()))
      reads_.push_back({.file = file, .offset = aligned_down(part.offset)});
    Read& read = reads_.back();
    read.bytes = std::max(read.bytes, part.offset + part.into.size() - read.offset);
    read.parts.push_back(part);
  }

  std::vector<Read> reads_;
  std::vector<Read> straight_;
};

// Tensors that were just made lie one behind the other, and a huge page may hold parts of several.
void prefer_huge_pages(std::span<const Range> wanted) {
  std::vector<std::span<std::byte>> targets;
  targets.reserve(wanted.size());
  for (const Range& range : wanted) {
    if (!range.into.empty()) targets.push_back(range.into);
  }
  std::ranges::sort(targets, {}, [](const auto& target) { return target.data(); });
  for (size_t i = 0; i < targets.size();) {
    std::byte* const begin = targets[i].data();
    std::byte* end = begin + targets[i].size();
    for (++i; i < targets.size() && targets[i].data() <= end + kGapBytesMax; ++i)
      end = std::max(end, targets[i].data() + targets[i].size());
    io::prefer_huge_pages({begin, end});
  }
}

// Threads that take reads in turn, until all are done or one failed.
class Loading {
 public:
  Loading(std::vector<std::unique_ptr<SourceFile>>& files, const std::vector<Read>& reads,
          io::BufferProvider& buffers, std::vector<std::atomic<uint32_t>>& left,
          const std::function<void(size_t)>& complete)
      : files_(files), reads_(reads), buffers_(buffers), left_(left), complete_(complete) {}

  Result<void> run() {
    const size_t count = std::min(kReaders, reads_.size());
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(); });
    work();
    threads.clear();
    return first_;
  }

 private:
  void work() {
    for (size_t i = next_.fetch_add(1); i < reads_.size() && !failed_; i = next_.fetch_add(1)) {
      const Read& read = reads_[i];
      const Result<void> done = read.straight ? read_straight(read) : read_bounced(read);
      if (done.ok()) continue;
      std::lock_guard lock(mutex_);
      if (first_.ok()) first_ = done;
      failed_ = true;
    }
  }

  Result<void> read_straight(const Read& read) {
    PENSTOCK_TRY(read_whole(read, read.parts[0].into));
    count(read.parts[0]);
    return {};
  }

  Result<void> read_bounced(const Read& read) {
    const io::Buffer buffer = PENSTOCK_TRY(buffers_.take(kPieceBytes));
    const uint64_t size = std::min(padded(read.bytes), uint64_t{kPieceBytes});
    PENSTOCK_TRY(read_whole(read, buffer.bytes().first(size)));
    for (const Part& part : read.parts) {
      std::memcpy(part.into.data(), buffer.data() + (part.offset - read.offset), part.into.size());
      count(part);
    }
    return {};
  }

  Result<void> read_whole(const Read& read, std::span<std::byte> into) {
    const size_t got = PENSTOCK_TRY(files_[read.file]->read(read.offset, into));
    if (got < read.bytes) return make_error(ErrorCode::kCorrupt, "a file ends too early");
    return {};
  }

  void count(const Part& part) {
    if (left_[part.range].fetch_sub(1, std::memory_order_acq_rel) == 1) complete_(part.range);
  }

  std::vector<std::unique_ptr<SourceFile>>& files_;
  const std::vector<Read>& reads_;
  io::BufferProvider& buffers_;
  std::vector<std::atomic<uint32_t>>& left_;
  const std::function<void(size_t)>& complete_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Result<void> first_;
};

}  // namespace

Result<void> load_ranges(Source& source, const std::vector<std::string>& files,
                         std::span<const Range> wanted,
                         const std::function<void(size_t)>& complete) {
  prefer_huge_pages(wanted);
  const std::vector<Read> reads = ReadPlan(wanted).take();
  std::vector<std::atomic<uint32_t>> left(wanted.size());
  std::vector<std::unique_ptr<SourceFile>> open(files.size());
  for (const Read& read : reads) {
    for (const Part& part : read.parts) left[part.range].fetch_add(1);
    if (open[read.file] == nullptr) open[read.file] = PENSTOCK_TRY(source.open(files[read.file]));
  }
  const std::shared_ptr<io::BufferProvider> buffers =
      PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = kReaders * kPieceBytes}));
  return Loading(open, reads, *buffers, left, complete).run();
}

}  // namespace penstock::checkpoint
