// Moves content from segments of the journal into objects of the store: packed together in the
// order of their writing, compressed, and put before the database says where they are now.
//
// What it does is no operation: bytes stay the same, only the rows of chunks change. So a crash
// costs the objects on their way (which garbage collection finds), and the journal still has all.
// Threads: all calls from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/meta.h"
#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/content_reader.h"
#include "volume/object_format.h"

namespace penstock::volume {

struct MoverOptions {
  VolumeUuid space{};
  codec::CodecSpec codec;
  WritebackOptions writeback;
  uint64_t pack_bytes = 64 * kMiB;  // Of an object, at most about.
  Nanoseconds io_timeout = std::chrono::seconds(60);
  std::function<meta::Time()> now;
  std::function<void()> commit;  // Called when segments may be released for it.
};

class Mover {
 public:
  // All outlive it.
  Mover(meta::Database& database, ContentReader& reader, store::ObjectStore& store,
        const MoverOptions& options);
  ~Mover() { stop(); }

  void start();
  void stop();
  // Somebody waits for room in the journal.
  void hurry();
  // What is in the journal now; here, and until the deadline.
  Result<void> move_all(Deadline deadline);
  // Since when something waits to be moved, about; 0: nothing does.
  meta::Time oldest() const { return oldest_; }

 private:
  struct Pack {
    meta::ObjectId id;
    std::vector<std::byte> bytes;
    std::vector<meta::Chunk> chunks;
    std::vector<meta::Place> places;  // Of the chunks, in the object.
  };

  // False: nothing was there to be moved.
  Result<bool> move_some(Deadline deadline);
  Result<std::vector<meta::Chunk>> gather();
  Result<Pack> fill(std::vector<meta::Chunk> chunks);
  Result<void> store(Pack& pack, Deadline deadline);
  Result<uint64_t> waiting_bytes();
  bool is_due(uint64_t bytes);
  void run();

  meta::Database& database_;
  ContentReader& reader_;
  store::ObjectStore& store_;
  const MoverOptions options_;
  std::atomic<uint32_t> next_number_ = 1;
  std::atomic<meta::Time> oldest_ = 0;
  std::mutex moving_;  // One moves.

  std::mutex mutex_;
  std::condition_variable wake_;
  bool hurry_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::volume
