// Datasets to batches, at the speed of the machine.
//
//   loader::LoaderOptions options;
//   options.sources = {{.addresses = {"s3://bucket/train-{000..999}.tar"}}};
//   options.fields = {loader::image_field("image", {"jpg"}, spec), loader::int_field("label", {"cls"})};
//   auto loader = PENSTOCK_TRY(loader::Loader::open(options));
//   while (auto batch = PENSTOCK_TRY(loader->next())) ...   // null at the end of the epoch
//
// order -> fetch -> decode -> batch. Which sample comes when is a pure function of (seed, epoch,
// position); ranks, threads and batch sizes only decide who does what of it. Reads are planned ahead
// from the order, within the memory given; decoding writes straight into the batch.
//
// Threads: next() from one thread at a time, all else from any. Batches are the caller's for as long
// as it keeps them; their memory counts until then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/data.h"
#include "penstock/decode.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::loader {

enum class FieldKind : uint8_t {
  kImage,  // Decoded, cropped, resized: a dense column.
  kInt,    // Text, or a value inside JSON; the class of a class folder ("cls"). Dense.
  kFloat,
  kArray,   // .npy of one dtype and shape. Dense.
  kBytes,   // As they are: ragged.
  kText,    // Ragged, too; must be UTF-8.
  kJson,    // Ragged; must be JSON.
  kTokens,  // Of a source of tokens: seq_length + 1 numbers. Dense.
};

struct Field {
  std::string name;  // In the batch.
  FieldKind kind = FieldKind::kBytes;
  // Which of the sample's fields: the first of these extensions that it has. Of TFRecords the name of
  // a feature of tf.train.Example, or "tfrecord" for the record itself.
  std::vector<std::string> from;
  // kInt, kFloat, kText: of a value inside JSON (decode::JsonReader). A text is checked to be there, and
  // the whole document delivered.
  std::string path = {};
  decode::ImageSpec image = {};
  decode::DType dtype = decode::DType::kInt64;  // kInt, kFloat, kArray.
  std::vector<uint64_t> shape = {};             // kArray.
};

enum class Shuffle : uint8_t { kNone, kGlobal, kLocal, kResampled };  // loader/order.h
std::string_view shuffle_name(Shuffle shuffle);
Result<Shuffle> parse_shuffle(std::string_view name);

// What becomes of the last samples of an epoch that do not fill a step of all ranks.
enum class Last : uint8_t {
  kDrop,   // Nobody takes them.
  kPad,    // The step is filled up from the front of the epoch; the mask of a batch marks those.
  kExact,  // There must be none: refused at the start.
};
std::string_view last_name(Last last);
Result<Last> parse_last(std::string_view name);

enum class OnError : uint8_t {
  kRaise,  // next() fails with it, and goes on after that batch when called again.
  kSkip,   // The slot is zeros, the mask says so, it is counted and listed.
};

enum class PageCache : uint8_t { kAuto, kBuffered, kUncached, kDirect };

struct Source {
  std::vector<std::string> addresses;
  double weight = 1;  // With several sources: how often, relative to the others.
  // Above 0: Megatron's PREFIX.bin and PREFIX.idx, whose tokens, one document after the other, are cut
  // into samples of so many and the one that comes next; what does not fill a sample is left out.
  uint32_t seq_length = 0;
};

// Divisible by all world sizes up to 10, by 12, 16, 18, 20, 24, 30, 36, 40, 48, 72, 80, 90, 120, 144…
inline constexpr uint32_t kStreamsDefault = 720;

struct LoaderOptions {
  std::vector<Source> sources;
  std::vector<Field> fields;
  uint32_t batch_size = 256;  // Of this rank.
  Shuffle shuffle = Shuffle::kNone;
  uint64_t seed = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  Last last = Last::kDrop;
  // Of several sources, which never end: samples of all ranks that make an epoch. 0: as many as all
  // sources have.
  uint64_t epoch_samples = 0;
  uint32_t streams = kStreamsDefault;  // shuffle local: world_size must divide it.
  uint64_t window_bytes = 16 * kMiB;   // shuffle local: shuffled within.
  uint64_t memory_bytes = 2 * kGiB;  // The ceiling on all buffers, batches that are kept included.
  uint32_t threads = 0;              // That decode; 0: the cores available.
  bool tune = false;                 // Finds `threads` by trying, for some seconds.
  uint32_t batches_ahead = 0;        // 0: as many as help.
  OnError on_error = OnError::kRaise;
  PageCache page_cache = PageCache::kAuto;
  io::PinPolicy pin = io::PinPolicy::kIfGpu;
  data::OpenOptions open = {};  // Cache, index, progress. Its `mode` is decided by page_cache.
};

// One field of a batch. Memory belongs to the batch.
struct Column {
  std::string_view name;
  FieldKind kind = FieldKind::kBytes;
  // Dense: batch_size x ... numbers.
  decode::DType dtype = decode::DType::kUint8;
  std::vector<uint64_t> shape;
  std::span<std::byte> data;
  // Ragged: slot i is data[starts[i], starts[i] + lengths[i]). What lies between may be anything.
  bool ragged = false;
  std::span<const int64_t> starts;
  std::span<const int64_t> lengths;
};

class Batch {
 public:
  virtual ~Batch() = default;
  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;  // Of the epoch.
  virtual std::span<const Column> columns() const = 0;
  virtual uint32_t size() const = 0;
  // 1: a sample. 0: padding, or one that was skipped.
  virtual std::span<const uint8_t> mask() const = 0;
  // Their numbers in their source, and which source.
  virtual std::span<const uint64_t> samples() const = 0;
  virtual uint32_t source(uint32_t slot) const = 0;
  virtual std::string key(uint32_t slot) const = 0;  // __key__
  virtual std::string url(uint32_t slot) const = 0;  // __url__
  virtual bool pinned() const = 0;
};

struct Skipped {
  std::string shard;
  std::string key;
  std::string reason;
};

// What was brought into the cache ahead of the reads. Over the whole life of a loader.
struct Staged {
  uint64_t bytes = 0;         // Fetched; what was there already does not count.
  uint64_t failed_bytes = 0;  // Could not be: their reads go to the source.
  uint64_t ahead_bytes = 0;   // In the cache now, for reads that have not come yet.
};

// Where the time went, since the loader was opened or reset_report().
struct Report {
  uint64_t batches = 0;
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t reads = 0;
  uint64_t skipped = 0;
  std::vector<Skipped> skipped_list;  // The first hundred.
  Nanoseconds elapsed{0};
  Nanoseconds first_batch{0};  // From open() to the first one delivered.
  // Sums over threads.
  uint32_t threads = 0;
  Nanoseconds read_busy{0};     // Worker threads in reads (page cache, loose files).
  Nanoseconds decode_busy{0};   // In decoding.
  Nanoseconds worker_wait{0};   // Without work.
  Nanoseconds storage_busy{0};  // Wall time with at least one asynchronous read under way.
  Nanoseconds plan_busy{0};
  Nanoseconds memory_wait{0};  // The planner, for room in memory_bytes.
  Nanoseconds ahead_wait{0};   // The planner, because enough is ahead: the consumer is slower.
  // The caller: how long next() took, and how long it stayed away.
  Nanoseconds next_total{0}, next_p50{0}, next_p99{0}, next_max{0};
  Nanoseconds away_total{0};
  double ready_mean = 0;  // Batches that were ready when next() was called.
  uint64_t memory_peak_bytes = 0;
  std::optional<cache::CacheStats> cache;
  std::optional<Staged> staged;
  std::string page_cache;  // "buffered", and why.
  std::string tuned;       // What was tried, and chosen.
};

// Where a run stands. A handful of numbers; saved as text.
struct State {
  uint64_t epoch = 0;
  uint64_t position = 0;  // Of the epoch, over all ranks: the first that was not delivered.
  // What the positions mean; load_state() refuses another.
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kNone;
  uint32_t streams = 0;
  uint64_t window_samples = 0;
  std::vector<uint64_t> samples;  // Per source.
  std::string to_text() const;
  static Result<State> from_text(std::string_view text);
};

class Loader {
 public:
  // kInvalid when the options make no sense, before anything is opened.
  static Result<std::unique_ptr<Loader>> open(const LoaderOptions& options);
  virtual ~Loader() = default;  // Stops at once; batches stay valid.

  virtual uint64_t samples() const = 0;  // Of all ranks, in an epoch.
  virtual uint64_t steps() const = 0;    // Of a whole epoch.
  // The next batch; null when the epoch is over: the call after that begins the next one. kTimeout at
  // the deadline, and for no other reason: nothing is lost, ask again.
  virtual Result<std::shared_ptr<const Batch>> next(Deadline deadline = kNoDeadline) = 0;
  // The epoch that next() is in, or will begin.
  virtual uint64_t epoch() const = 0;
  // Begins `epoch` anew. Free when it is the one that comes anyway.
  virtual Result<void> set_epoch(uint64_t epoch) = 0;
  virtual uint64_t steps_left() const = 0;

  virtual State state() const = 0;
  // Goes on from there, at another world size, batch size or thread count too.
  virtual Result<void> load_state(const State& state) = 0;

  virtual Report report() const = 0;
  virtual void reset_report() = 0;
  virtual std::span<const std::shared_ptr<data::Dataset>> datasets() const = 0;
  // What whoever opened it should be told, in sentences: none, mostly.
  virtual std::span<const std::string> warnings() const = 0;
};

}  // namespace penstock::loader
