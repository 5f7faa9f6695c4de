// Puts chunks into a new object, packed together in their order and compressed, and tells the
// database where they are now.
//
// That is no operation: bytes stay the same, only the rows of chunks change. So a crash costs the
// objects on their way, which garbage collection finds.
// Threads: all calls from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "penstock/meta.h"
#include "penstock/store.h"
#include "volume/content_reader.h"
#include "volume/object_format.h"

namespace penstock::volume {

struct PackerOptions {
  VolumeUuid space{};
  codec::CodecSpec codec;
  uint64_t pack_bytes = 64 * kMiB;  // Of an object, raw, at most about.
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
        codec_(options.codec) {}

  // Of what is packed from now on.
  void set_codec(const codec::CodecSpec& codec) { codec_ = codec; }
  uint64_t pack_bytes() const { return options_.pack_bytes; }
  store::ObjectStore& store() { return store_; }

  // All of them into one object. Those that nobody refers to any more are left out. On return the
  // object is durable and the rows are changed, to be committed by the caller.
  Result<void> move(std::vector<meta::Chunk> chunks, Deadline deadline);

 private:
  struct Pack {
    meta::ObjectId id;
    std::vector<std::byte> bytes;
    std::vector<meta::Chunk> chunks;
    std::vector<meta::Place> places;  // Of the chunks, in the object.
  };

  Result<Pack> fill(std::vector<meta::Chunk> chunks);
  Result<void> store_pack(const Pack& pack, Deadline deadline);
  Result<void> move_rows(const Pack& pack);

  meta::Database& database_;
  ContentReader& reader_;
  store::ObjectStore& store_;
  const PackerOptions options_;
  std::atomic<codec::CodecSpec> codec_;
  std::atomic<uint32_t> next_number_ = 1;
};

}  // namespace penstock::volume
