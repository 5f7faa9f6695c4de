// Datasets as people have them, seen as numbered samples with named fields:
//
//   tar        WebDataset shards (plain, .gz, .zst): files of one key are the fields of a sample
//   tfrecord   TFRecord files: a record is a sample
//   folder     a folder per class: a file is a sample, its folder's number is its label
//   files      any files: files of one key, as in a tar, are the fields of a sample
//
//   auto dataset = PENSTOCK_TRY(data::Dataset::open({"s3://bucket/train-{000..999}.tar"}, {}));
//   data::SamplePlace place = PENSTOCK_TRY(dataset->place(17));
//   for (const data::Member& member : place.members) ... // where its fields lie
//
// Nothing is converted. A small index says where each sample begins and what it has; it is made on
// first use, shard by shard and in parallel, and kept: beside the data where that can be written,
// otherwise below `index_dir`. It is believed only while size and version of a shard are the same.
//
// Errors name the shard, the offset and the key. kCorrupt: the bytes are not what the format says.
// Whatever the bytes are, nothing outside of the shard is read and no memory is taken that the shard
// does not justify.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/cache.h"
#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/store.h"

namespace penstock::data {

enum class Format : uint8_t { kAuto, kTar, kTfRecord, kFolder, kFiles };
std::string_view format_name(Format format);  // "tar"
Result<Format> parse_format(std::string_view name);

enum class Compression : uint8_t { kNone, kGzip, kZstd };

// What went on while a dataset was opened: for people who wait.
struct OpenProgress {
  uint64_t shards = 0;
  uint64_t shards_indexed = 0;  // Of those, with an index now.
  uint64_t bytes = 0;           // Of shards without an index when it began,
  uint64_t bytes_done = 0;      // and of those, looked at.
};

struct OpenOptions {
  Format format = Format::kAuto;  // kAuto: by the names.
  // Gets of remote and of slow shards go through it. Null: none.
  std::shared_ptr<cache::Cache> cache = {};
  // Where an index goes that cannot lie beside its data. Empty: $XDG_CACHE_HOME/penstock/index, or
  // ~/.cache/penstock/index.
  std::string index_dir = {};
  uint32_t threads = 0;  // For making an index; 0: twice the cores.
  // For the indexes of shards, which are read when first wanted. What does not fit is read again each
  // time. 0: an eighth of the machine's memory.
  uint64_t index_memory_bytes = 0;
  // Called now and then, from one thread at a time.
  std::function<void(const OpenProgress&)> on_progress = {};
  // How local files are read. kDirect and kUncached where the file system can.
  io::CacheMode mode = io::CacheMode::kBuffered;
  io::FileSystem* file_system = nullptr;  // Null: the local one, made once for the process.
  const store::S3Options* s3 = nullptr;   // Null: from the environment.
  std::stop_token cancel = {};
};

// A file or object with samples in it; of folders and loose files, the folder.
struct Shard {
  std::string name;  // For people, and __url__: "/data/train-000001.tar", "s3://bucket/…".
  uint32_t store = 0;
  std::string key;           // In that store; of a folder, what the keys of its files begin with.
  uint64_t size = 0;         // Of a folder, the sum of its files.
  std::string version = {};  // What tells that it is the same as before.
  Compression compression = Compression::kNone;
  bool loose = false;  // Each member is an object of its own, `key` + the member's path.
  int32_t label = -1;  // Of a class folder, its number.
  uint64_t samples = 0;
  uint64_t first_sample = 0;  // Its number in the dataset.
};

// A field of a sample: a range of bytes of its shard (of the decompressed one, for compressed
// shards), or of an object of its own (loose). 16 bytes.
struct Member {
  uint64_t offset : 48;
  uint64_t field : 16;  // In ShardIndex::fields().
  uint64_t size : 48;
  uint64_t suffix : 16;  // Its extension as it is written, which may not be in lower case.
};
static_assert(sizeof(Member) == 16);

// What is known of one shard: immutable, shared, about 16 bytes per field, 8 and its key per sample.
// Threads: all calls from any thread.
class ShardIndex {
 public:
  virtual ~ShardIndex() = default;
  virtual uint32_t samples() const = 0;
  // Requires sample < samples(). Of loose files, what follows the shard's key; of records, nothing.
  virtual std::string_view key(uint32_t sample) const = 0;
  virtual std::span<const Member> members(uint32_t sample) const = 0;
  // Of loose files: below the shard's key. In the order of members().
  virtual std::string path(uint32_t sample, size_t member) const = 0;
  // Extensions, lower case: "jpg", "cls", "seg.png". Of a TFRecord file only "tfrecord", whose bytes
  // are those of the record with its framing.
  virtual const std::vector<std::string>& fields() const = 0;
  virtual uint64_t memory_bytes() const = 0;
};

struct SamplePlace {
  uint32_t shard = 0;
  uint32_t sample = 0;  // Within the shard.
  std::shared_ptr<const ShardIndex> index;
  std::span<const Member> members;
};

// The bytes of a shard from its beginning on, decompressed: what Member::offset counts in. Takes a few
// MiB of memory; for zstd what its writer chose, 128 MiB at most.
// Threads: one at a time. Lifetime: its dataset outlives it.
class SequentialReader {
 public:
  virtual ~SequentialReader() = default;
  // Fills `into`; the count is less than its size only at the end of the shard. kCorrupt where the
  // bytes are not what was compressed, kChanged when it is not the shard that was indexed.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
  // Passes over so many bytes, or over what is left of them: answers how many.
  virtual Result<uint64_t> skip(uint64_t bytes) = 0;
  virtual uint64_t offset() const = 0;  // Of what comes next.
};

// Threads: all calls from any thread. Lifetime: outlives its reads.
class Dataset {
 public:
  // Finds the shards (see store/selection.h for what an address may be), in the order given and, of
  // patterns and folders, sorted by name; makes the indexes that are missing. kNotFound when an
  // address names nothing, kInvalid when there are no samples at all.
  static Result<std::unique_ptr<Dataset>> open(const std::vector<std::string>& addresses,
                                               const OpenOptions& options);
  virtual ~Dataset() = default;

  virtual Format format() const = 0;
  virtual uint64_t samples() const = 0;
  virtual uint64_t bytes() const = 0;  // Of all shards.
  virtual std::span<const Shard> shards() const = 0;
  virtual const std::vector<std::string>& classes() const = 0;  // Of class folders, sorted.
  // Compressed: samples of a shard can only be read in order.
  virtual bool sequential_only() const = 0;
  // All on local file systems and not behind a cache: read_now() is as good as async_read().
  virtual bool local() const = 0;
  // Of the bytes, those that come over a network each time: from a store that others see too, or a
  // network mount, and without a cache in front.
  virtual uint64_t far_bytes() const = 0;
  virtual io::CacheMode mode() const = 0;         // Of local shards.
  virtual void set_mode(io::CacheMode mode) = 0;  // Before the first read.
  virtual std::shared_ptr<cache::Cache> cache() const = 0;

  // Where a sample lies. Loads the index of its shard where that is not in memory, which blocks
  // for a read of a few hundred KB. Requires sample < samples().
  virtual Result<SamplePlace> place(uint64_t sample) = 0;
  // The shard of a sample, by its number alone.
  virtual uint32_t shard_of(uint64_t sample) const = 0;
  virtual Result<std::shared_ptr<const ShardIndex>> shard_index(uint32_t shard) = 0;

  // Bytes of a shard that is not loose and not compressed, as it was when indexed: kChanged
  // otherwise. `into` is filled, or it is an error. kInvalid when the range is not in the shard.
  // `done` as for io::File::submit. May block for the opening of a file.
  virtual void async_read(uint32_t shard, uint64_t offset, io::MemorySlice into,
                          std::function<void(Result<void>)> done) = 0;
  // The same on this thread; requires local().
  virtual Result<void> read_now(uint32_t shard, uint64_t offset, std::span<std::byte> into) = 0;
  // Tells the system that this will be read soon; does nothing unless local() and buffered.
  virtual void will_need(uint32_t shard, uint64_t offset, uint64_t length) = 0;
  // Brings it, and what is around it, into the page cache, once, and waits for that; for data that fits
  // there. Does nothing unless local() and buffered. From one thread.
  virtual void fill_page_cache(uint32_t, uint64_t, uint64_t) {}
  // From now on read_now() copies out of mapped shards, which is faster where the data lies in the page
  // cache. What was copied then counts as resident memory of the process: so many bytes at most. 0, and
  // nothing is mapped, unless all of it is local, buffered, and in shards that are not compressed.
  // Before the first read.
  virtual uint64_t map_shards() { return 0; }
  // All of a loose member, from any thread: blocking. Answers its size; when that is more than `into`
  // has, what is there is of no use. From a store that told its version when it was listed, that
  // version: kChanged when it is another by now. Otherwise as large as it is now.
  virtual Result<uint64_t> read_loose(const SamplePlace& place, size_t member,
                                      std::span<std::byte> into) = 0;

  // The same without waiting: requires !local(). `into` is as large as the member was when
  // it was listed, and is filled, or it is an error.
  virtual void async_read_loose(const SamplePlace& place, size_t member, io::MemorySlice into,
                                std::function<void(Result<void>)> done) = 0;
  // The object that a loose member is: key, size, and its etag where that is known.
  virtual store::ObjectInfo loose_object(const SamplePlace& place, size_t member) const = 0;

  // Reads over a network that are under way, and those that come, end soon, with kCancelled: for who
  // wants to end without waiting for a server that does not answer.
  virtual void stop_reads() = 0;

  // A shard that is not loose as a stream: for compressed ones the only way.
  virtual Result<std::unique_ptr<SequentialReader>> read_in_order(uint32_t shard) = 0;

  // For who knows the order of its reads: null without a cache. See cache::Stager. The etag of its
  // ranges is the shard's version.
  virtual std::unique_ptr<cache::Stager> make_stager(uint32_t store,
                                                     const cache::StageOptions& options) = 0;
};

// The data of a TFRecord, from all of its bytes; kCorrupt when a checksum is wrong.
Result<std::span<const std::byte>> verify_record(std::span<const std::byte> record);

// The codes of Megatron.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kUint16 = 8,
};
std::string_view token_type_name(TokenType type);  // "uint16"
size_t token_bytes(TokenType type);

// A Megatron dataset: sequences of tokens in PREFIX.bin, and where they are in PREFIX.idx, of which
// lengths, pointers and documents are kept in memory: 12 bytes per sequence, 8 per document.
// Threads: all calls from any thread. Lifetime: outlives its reads.
class TokenFile {
 public:
  // `address`: PREFIX, or either file, local or in a store. kCorrupt when the two do not fit together;
  // whatever they say, nothing outside of PREFIX.bin is read.
  static Result<std::unique_ptr<TokenFile>> open(const std::string& address,
                                                 const OpenOptions& options);
  virtual ~TokenFile() = default;

  virtual TokenType type() const = 0;
  virtual uint64_t sequences() const = 0;
  virtual uint64_t documents() const = 0;
  virtual uint64_t bytes() const = 0;  // Of PREFIX.bin.
  // In tokens. Requires sequence < sequences().
  virtual uint32_t length(uint64_t sequence) const = 0;
  // In bytes of PREFIX.bin.
  virtual uint64_t offset(uint64_t sequence) const = 0;
  // The first sequence of a document, which ends where the next one begins. Requires
  // document <= documents().
  virtual uint64_t document_begin(uint64_t document) const = 0;

  // Tokens from `first` on; kInvalid when that is not within the sequence, or `into` no whole number
  // of tokens.
  virtual Result<void> read(uint64_t sequence, uint64_t first, std::span<std::byte> into) = 0;
  // A file of this machine, not behind a cache.
  virtual bool local() const = 0;
  virtual bool far() const = 0;  // As Dataset::far_bytes().
  virtual void stop_reads() = 0;
  virtual const std::string& name() const = 0;  // Of PREFIX.bin, for people.
  // PREFIX.bin in its store, and what has it staged there: null without a cache.
  virtual const store::ObjectInfo& object() const = 0;
  virtual std::unique_ptr<cache::Stager> make_stager(const cache::StageOptions& options) = 0;
  // Bytes of PREFIX.bin, on this thread; where it is a file of this machine, as copies of mapped memory.
  // Those of a file that becomes shorter may be zeros then: nothing read since the last check_size()
  // counts until the next one says that all is there.
  virtual Result<void> read_bytes(uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<void> check_size() = 0;  // kCorrupt when it was cut off.
  // The same, as Dataset::async_read.
  virtual void async_read(uint64_t offset, io::MemorySlice into,
                          std::function<void(Result<void>)> done) = 0;
  // As Dataset::fill_page_cache.
  virtual void fill_page_cache(uint64_t offset, uint64_t length) = 0;
};

}  // namespace penstock::data
