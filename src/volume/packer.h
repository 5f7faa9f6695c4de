// Puts chunks into a new object, packed together in their order and compressed, and tells the
// database where they are now.
//
// That is no operation: bytes stay the same, only the rows of chunks change. So a crash costs the
// objects on their way, which garbage collection finds.
// Threads: all calls from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <vector>

#include "base/thread_pool.h"
#include "penstock/meta.h"
#include "penstock/store.h"
#include "volume/content_reader.h"
#include "volume/object_format.h"
#include "volume/volume_metrics.h"

namespace penstock::volume {

struct PackerOptions {
  VolumeUuid space{};
  codec::CodecSpec codec;
  uint64_t pack_bytes = 32 * kMiB;  // Of an object, raw, at most about.
};

class Packer {
 public:
  // All outlive it.
  Packer(meta::Database& database, ContentReader& reader, store::ObjectStore& store,
         const PackerOptions& options)
      : database_(database),
        reader_(reader),
        store_(store),
        options_(options),
        codec_(options.codec),
        filling_(static_cast<ptrdiff_t>(std::max<size_t>(available_cores() / 2, 1))) {}

  // Of what is packed from now on.
  void set_codec(const codec::CodecSpec& codec) { codec_ = codec; }
  // Kept for the next objects: the system clears memory that is new, which takes long.
  void let_go_of_memory();

  uint64_t pack_bytes() const { return options_.pack_bytes; }
  store::ObjectStore& store() { return store_; }

  // All of them into one object. Those that nobody refers to any more are left out. On return the
  // object is durable and the rows are changed, to be committed by the caller. Storing it may take
  // `io_timeout`.
  Result<void> move(std::vector<meta::Chunk> chunks, Nanoseconds io_timeout,
                    const std::stop_token& cancel = {});

  // An object that is being made.
  struct Pack {
    meta::ObjectId id;
    std::vector<std::byte> bytes;
    std::vector<meta::Place> places;  // Of what was added, in its order.
  };
  Pack begin();
  void end(Pack pack);  // Its memory is used again.
  Result<void> add(Pack& pack, std::span<const std::byte> raw);
  // On return it is durable, and chunks may lie there.
  Result<void> store_pack(const Pack& pack, const store::CallOptions& call);

 private:
  // Those that are still wanted, which it answers with.
  Result<std::vector<meta::Chunk>> fill(Pack& pack, std::vector<meta::Chunk> chunks);
  Result<void> upload(const Pack& pack, const store::CallOptions& call);
  Result<void> move_rows(const Pack& pack, const std::vector<meta::Chunk>& chunks);

  meta::Database& database_;
  ContentReader& reader_;
  store::ObjectStore& store_;
  const PackerOptions options_;
  VolumeMetrics& metrics_ = VolumeMetrics::global();
  std::atomic<codec::CodecSpec> codec_;
  std::atomic<uint32_t> next_number_ = 1;
  std::counting_semaphore<> filling_;  // Others send what they have filled meanwhile.
  std::mutex spare_mutex_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace penstock::volume
