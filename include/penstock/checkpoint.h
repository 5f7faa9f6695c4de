// Checkpoints: the state of a training run, saved while it goes on, and found whole again.
//
//   auto saver = PENSTOCK_TRY(checkpoint::Checkpointer::open({.directory = "/nvme/run1"}));
//   auto save = PENSTOCK_TRY(saver->save(step, state));   // the tensors may change from here on
//   PENSTOCK_TRY(save->durable());                        // and now it survives a power cut
//
//   auto reader = PENSTOCK_TRY(checkpoint::open_newest("/nvme/run1", {}));
//   PENSTOCK_TRY(reader->load(wanted));                   // verified, or an error that names what is not
//
// What always holds. A reader never sees half a checkpoint: one is there when its manifest is, and the
// manifest comes last. What durable() reported survives a power cut and a kill at any moment. Bytes
// that are not those saved are never returned: everything is under a checksum. Nothing is deleted
// before what replaces it is durable.
//
// On disk: DIRECTORY/step-0000001000/ with manifest.json and standard safetensors files
// (docs/formats/checkpoint.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::checkpoint {

// A tensor to be saved: row-major, without gaps.
struct Tensor {
  std::string name;   // UTF-8, once in a state.
  std::string dtype;  // As safetensors calls it: "F32", "BF16".
  std::vector<uint64_t> shape;
  // Of the size that dtype and shape make. Read only during save().
  const std::byte* data = nullptr;
  int32_t device =
      -1;  // In the memory of this CUDA device, where all work on it is done; -1: the host's.
};

struct State {
  std::vector<Tensor> tensors;
  std::string tree;  // JSON, kept as it is: how a caller nests the tensors. May be empty.
  std::map<std::string, std::string> metadata;
};

// What save() does while an earlier one is not durable yet.
enum class WhenBusy : uint8_t {
  kWait,   // Waits until it is.
  kSkip,   // Saves nothing: the handle says so.
  kQueue,  // Waits only for room in the arena.
};

// Several processes that save each checkpoint together, to a directory that all of them see: each
// writes its part, rank 0 gives the whole its name when all parts are durable. Rank 0 alone holds the
// lease, deletes old ones and copies to second places.
struct Ranks {
  uint32_t rank = 0;
  uint32_t count = 1;
  // Tells this run from all others: the same for all ranks (make_run_id). Empty: they find each other
  // over the directory, which takes as long as the last one takes to come.
  std::string run = {};
  Nanoseconds timeout = std::chrono::minutes(10);  // So long do ranks wait for each other.
};
std::string make_run_id();

// Which checkpoints of a place stay: the newest always, all where nothing is said.
struct Retention {
  uint64_t keep_last = 0;
  uint64_t keep_every = 0;  // Besides those, every step that is a multiple of it.
};

// A second place for checkpoints.
struct Tier {
  std::string address;                 // A directory, or "s3://…".
  std::optional<Retention> keep = {};  // As in the first place, unless it says so itself.
};

struct CheckpointerOptions {
  std::string directory;  // Made when missing.
  Ranks ranks = {};
  // Staging memory, at most. 0: as much as the largest state needs, so that save() copies and never
  // waits for the disk. With less, save() waits while what it staged is written.
  uint64_t arena_bytes = 0;
  WhenBusy when_busy = WhenBusy::kWait;
  Retention keep = {};
  // Where each checkpoint is copied to when it is durable, in this order. The newest of an earlier run
  // is, too. Nothing is deleted here before its successor is there.
  std::vector<Tier> replicate = {};
  uint64_t replicate_bandwidth = 0;  // Bytes a second. 0: as fast as it goes.
  uint64_t max_bandwidth = 0;        // Bytes a second, of writing. 0: as fast as it goes.
  uint32_t copy_threads = 0;         // Of the staging copy. 0: one per core, at most 8.
  uint32_t files_max =
      0;  // Into so many files is a state divided, if it is large enough. 0: 4, or 256
          // with `incremental`.
  // Files whose tensors are as they were in the checkpoint before become links to those, where the file
  // system has links and the arena holds all of the state. Second places copy within themselves.
  bool incremental = false;
  bool sha256_sums = false;                     // SHA256SUMS beside the files, for `sha256sum -c`.
  io::CacheMode mode = io::CacheMode::kDirect;  // Buffered where the file system cannot do that.
  io::PinPolicy pin = io::PinPolicy::kIfGpu;
  std::string program = "penstock";  // What manifests say that they were written by.
  io::FileSystem* fs = nullptr;      // Null: the one of this process.
};

// Of one save.
struct SaveOptions {
  std::string name =
      {};  // Of its directory. Empty: made of the step. Others are not listed, nor deleted.
  bool replace = false;  // What has that name goes when the new one takes it, in one moment.
  // Only this rank's part of that attempt (make_run_id), for processes that talk to each other by means
  // of their own: commit() gives it its name.
  std::string attempt = {};
  // Asked every now and then while save() waits for earlier ones: true ends that, with kCancelled and
  // nothing saved.
  std::function<bool()> give_up = {};
};

// How far a save is, and what it cost.
struct SaveReport {
  uint64_t step = 0;
  bool skipped = false;
  uint64_t bytes = 0;         // Of files,
  uint64_t linked_bytes = 0;  // of which so many were as before.
  uint64_t tensors = 0;
  uint64_t files = 0;
  Nanoseconds stall{0};     // How long save() took,
  Nanoseconds waited{0};    // of that for earlier saves or room,
  Nanoseconds prepared{0};  // for names and space on the disk,
  Nanoseconds copied{0};    // and for copying.
  Nanoseconds durable{0};   // From the beginning of save() until it was; 0 before.
  Nanoseconds replicated{0};
  uint32_t rewritten = 0;  // Times that files were written anew after a sync that failed.
};

// A save under way. Threads: all calls from any thread.
class Save {
 public:
  virtual ~Save() = default;
  // Waits until it survives a power cut. The error that kept it from that, kTimeout at the deadline
  // (it goes on), kCancelled where it was skipped. Who asks has seen the error: it does not come out
  // of the next save() or of close() again.
  virtual Result<void> durable(Deadline deadline = kNoDeadline) = 0;
  // Waits until it is durable in all the places of `replicate` too. Errors as above.
  virtual Result<void> replicated(Deadline deadline = kNoDeadline) = 0;
  // With SaveOptions::attempt, when it is durable: what commit() wants to know of it.
  virtual std::string part() const = 0;
  virtual bool done() const = 0;  // Nothing is left to be done, or can be.
  virtual SaveReport report() const = 0;
};

// Threads: save() and close() from one thread at a time; Save from any.
class Checkpointer {
 public:
  // kBusy while another process, or another Checkpointer of this one, writes to that directory.
  // What a run that died left half-written is removed.
  static Result<std::unique_ptr<Checkpointer>> open(const CheckpointerOptions& options);
  // As close(), errors logged.
  virtual ~Checkpointer() = default;

  // Takes a copy of all tensors, then returns; writes in the background. Before anything is copied:
  // kInvalid for what cannot be saved, kExists for a step that is there already, kNoSpace where the
  // disk has no room, and the error of an earlier save that nobody has seen. Nothing is left behind
  // then. With several ranks the failure of another may come out here, or of the Save.
  virtual Result<std::shared_ptr<Save>> save(uint64_t step, State state,
                                             const SaveOptions& options = {}) = 0;
  // In place of the next save(), by a rank that cannot make its state: the others fail at once, and are
  // told who and why.
  virtual Result<void> refuse(const std::string& why) = 0;
  // All parts of an attempt become a checkpoint, with one tree for all of them. Durable on return; on
  // failure nothing of it stays. By one rank, when all parts are durable.
  virtual Result<void> commit(uint64_t step, const SaveOptions& options,
                              const std::vector<std::string>& parts, const std::string& tree,
                              const std::map<std::string, std::string>& metadata) = 0;
  // Waits until all saves are durable; the first error that nobody has seen.
  virtual Result<void> drain() = 0;
  // Removes a checkpoint by its name, when all saves before are durable.
  virtual Result<void> remove(const std::string& name) = 0;
  // What each rank has to say, by rank: all get the same. All must call it, with the same topics in the
  // same order. kTimeout names who did not.
  virtual Result<std::vector<std::string>> exchange(const std::string& topic,
                                                    const std::string& mine) = 0;
  // Waits for the saves under way; the first error that nobody has seen. A second call does nothing.
  virtual Result<void> close() = 0;
};

// What is in a directory, newest first, without looking at data.
struct Found {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  int64_t saved_ns = 0;  // When, since the epoch.
  // What is wrong with it, as far as its manifest and the sizes of its files tell.
  std::optional<Error> damage = {};
};
Result<std::vector<Found>> list_checkpoints(io::FileSystem& fs, const std::string& directory);

struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::string file;     // Within the checkpoint,
  uint64_t offset = 0;  // and where in it.
  uint64_t hash = 0;    // xxh3-64.
  uint32_t rank = 0;    // Who saved it.
};

struct LoadTarget {
  size_t tensor = 0;          // Index into tensors().
  std::span<std::byte> into;  // Of exactly its size.
};

// Threads: all calls from any thread.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t step() const = 0;
  virtual const std::string& path() const = 0;
  virtual const std::vector<std::string>& trees() const = 0;  // Of each rank that saved.
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Reads and verifies. kCorrupt names tensor, file and offset; what is in any `into` is then not to
  // be used.
  virtual Result<void> load(std::span<const LoadTarget> wanted) = 0;
  // Everything in it, headers of files too, against the checksums. Every damage, not only the first.
  virtual std::vector<Error> verify() = 0;
};

// One step. kNotFound, kCorrupt.
Result<std::unique_ptr<Reader>> open_checkpoint(io::FileSystem& fs, const std::string& directory,
                                                uint64_t step);
// Any, by its own path.
Result<std::unique_ptr<Reader>> open_checkpoint_at(io::FileSystem& fs, const std::string& path);
// The newest whose manifest and files' sizes are right; `damaged`, where given, gets what was wrong
// with newer ones. kNotFound where there is none.
Result<std::unique_ptr<Reader>> open_newest(io::FileSystem& fs, const std::string& directory,
                                            std::vector<Found>* damaged = nullptr);

}  // namespace penstock::checkpoint
