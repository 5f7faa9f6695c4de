// What files hold, from the journal, from memory, or from the store: verified.
// Threads: all calls from any thread.
// Stopping: prefetches under way are finished by the destructor.
#pragma once

#include <memory>
#include <semaphore>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/frame_cache.h"
#include "volume/journal.h"
#include "volume/object_format.h"
#include "volume/volume_metrics.h"

namespace penstock::volume {

struct ReaderOptions {
  VolumeUuid space{};
  size_t threads = 8;       // That load at once, besides those that read.
  uint32_t loads_max = 16;  // At once, in all: a load takes up to 8 MiB of the frames' memory.
  Nanoseconds io_timeout = std::chrono::seconds(60);  // Of one request to the store, with retries.
};

class ContentReader {
 public:
  // All outlive it.
  ContentReader(Journal& journal, store::ObjectStore& store, FrameCache& frames,
                const ReaderOptions& options);

  // [offset, offset + scratch.size()) of a file with these extents, which are all that touch the
  // range, in order. What none covers is zeros. What does not lie in a frame is put where it belongs
  // in `scratch`. kNotFound: the bytes lie elsewhere by now; ask for the extents again. kCorrupt, and
  // what stores say.
  Result<Pieces> find(std::span<const meta::Extent> extents, uint64_t offset,
                      std::span<std::byte> scratch);
  // The same, all of it copied.
  Result<void> read(std::span<const meta::Extent> extents, uint64_t offset,
                    std::span<std::byte> into);
  // Begins to load them, if they are not in memory.
  void prefetch(std::span<const meta::Extent> extents, uint64_t offset, uint64_t length);
  // All of a chunk, past the memory: for who moves it.
  Result<void> read_chunk(const meta::Place& place, std::span<std::byte> into);

 private:
  // Frames that lie one after the other in an object.
  struct Load {
    meta::ObjectId object;
    uint64_t offset = 0;  // In the object.
    uint64_t length = 0;
    struct Part {
      meta::Place place;
      uint32_t first = 0;  // Of its frames.
      uint32_t count = 0;
    };
    std::vector<Part> parts;
    std::vector<FrameKey> claimed;
  };

  // `ahead`: nobody has asked for them yet.
  std::vector<Load> plan(std::span<const meta::Extent> extents, uint64_t offset, uint64_t length,
                         bool ahead);
  void add_part(std::vector<Load>& loads, const Load::Part& part, std::vector<FrameKey> claimed);
  // `one_here`: the first on this thread, and what became of it is the answer.
  Result<void> start(std::vector<Load> loads, bool one_here);
  Result<void> run(const Load& load);
  Result<void> load_frames(const Load& load, bool past_cache, std::vector<FrameKey>& missing);
  Result<void> decode(const Load& load, const Load::Part& part, uint32_t index,
                      std::span<const std::byte> stored,
                      const std::shared_ptr<const io::Buffer>& memory);
  Result<void> get(meta::ObjectId object, uint64_t offset, std::span<std::byte> into,
                   bool past_cache);
  Error get_failed(const Error& error, const std::string& key);
  Result<void> add_frames(Pieces& pieces, const meta::Extent& extent, uint64_t begin,
                          uint64_t length, std::span<std::byte> scratch);
  Result<FrameRef> frame(const meta::Place& place, uint32_t index);
  Error damaged(meta::ObjectId object, uint64_t offset) const;
  Result<void> read_journal(const meta::Place& place, uint64_t begin, std::span<std::byte> into);

  Journal& journal_;
  store::ObjectStore& store_;
  FrameCache& frames_;
  const ReaderOptions options_;
  VolumeMetrics& metrics_ = VolumeMetrics::global();
  // Each holds memory while it waits for more: together less than there is.
  std::counting_semaphore<> loads_;
  ThreadPool pool_;
};

// To where they belong in the scratch that they were found with.
void copy_pieces(const Pieces& pieces, std::span<std::byte> into);

}  // namespace penstock::volume
