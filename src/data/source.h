// Where shards are read from: a store, or, for files of this machine, the file system itself.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "penstock/cache.h"
#include "penstock/io.h"
#include "penstock/store.h"

namespace penstock::data {

inline constexpr std::string_view kTree = "tree:";  // What addresses of trees of files begin with.

// A store of the selection.
struct Source {
  std::unique_ptr<store::ObjectStore> store;  // With the cache in front, where it is used.
  cache::CachedStore* cached = nullptr;       // The same, or null.
  io::FileSystem* fs = nullptr;
  std::string front;           // What names of objects begin with, for people.
  std::string root;            // Of a tree: its directory; empty for others.
  bool by_path = false;        // A tree that is read as files, past the store.
  bool far = false;            // Over a network, each time: without a cache.
  std::stop_source stop = {};  // Ends reads of a store over the network.

  std::string name_of(const std::string& key) const { return front + key; }
  // Requires root.
  std::string path_of(const std::string& key) const;
  // What says, with the size, that an object is the same as before. Of files it does not depend on
  // the machine, so that an index can be copied with them.
  std::string version_of(const store::ObjectInfo& object) const;
};

// Opens the store at `address`, one of Selection::stores(), for reading. The cache is in front of what
// comes over a network; what lies on drives of this machine, a volume too, is not copied to others of
// them.
Result<Source> open_source(const std::string& address, io::FileSystem& fs, bool real_file_system,
                           const store::S3Options* s3, const std::shared_ptr<cache::Cache>& cache);

// Whether `path` is on another machine, as far as the kernel tells: the type of its file system. Of
// FUSE that is a guess, which is right for what training data lies on.
bool is_network_mount(const std::string& path);
bool is_network_type(uint32_t type);  // statfs::f_type

// The bytes of one shard, as it was when it was found.
// Threads: all calls from any thread. Lifetime: outlives its reads; so does its source.
class ShardFile {
 public:
  using Done = std::function<void(Result<void>)>;

  virtual ~ShardFile() = default;
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // A read takes long, however small: more than one should be under way.
  virtual bool is_remote() const = 0;
  // Fills `into`. kChanged when the shard is another by now, kInvalid when the range is not in it.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> into) = 0;
  // kCorrupt when a local one is shorter by now.
  virtual Result<void> check_size() { return {}; }
  // `done` as for ObjectStore and File.
  virtual void start_read(uint64_t offset, io::MemorySlice into, Done done) = 0;
  // As memory, where that can be; or null.
  virtual std::unique_ptr<io::FileMap> map() { return nullptr; }
  // Of a local one: io::Advice::kFill.
  virtual void fill_page_cache(uint64_t, uint64_t) {}
};

// `cancel` ends reads from a store. kChanged when a local file is another by now.
Result<std::unique_ptr<ShardFile>> open_shard_file(const Source& source,
                                                   const store::ObjectInfo& object,
                                                   io::CacheMode mode, std::stop_token cancel = {});

// The error for bytes that a shard does not have, though its size says so.
Error short_read(const std::string& name, uint64_t offset, uint64_t wanted);
// Nothing, or the error for a range that is not in a shard of this size.
Result<void> check_range(const std::string& name, uint64_t shard_bytes, uint64_t offset,
                         uint64_t length);

// A local file, open, and still as `object` says.
Result<std::unique_ptr<io::File>> open_unchanged(const Source& source,
                                                 const store::ObjectInfo& object,
                                                 io::CacheMode mode);

}  // namespace penstock::data
