// Volumes: files and directories whose content lies in an object store, and whose metadata in a
// database beside a journal on a local drive.
//
//   auto host = PENSTOCK_TRY(volume::create_host(fs, "/var/volumes/train", {.name = "train"}));
//   auto train = PENSTOCK_TRY(host->open("train"));
//   auto file = PENSTOCK_TRY(train->create(meta::kRoot, "a", {.mode = S_IFREG | 0644}));
//   PENSTOCK_TRY(train->write(file.ino, 0, bytes));
//   PENSTOCK_TRY(train->sync());                                  // survives a power cut
//
// What holds:
// - What a call that changes something returned survives the death of the process: it is in the
//   journal. What sync() returned survives a power cut.
// - Every byte that is read was verified, or the read fails (kCorrupt names the object).
// - Changes are seen by every call that begins after they returned.
// - A version is a state of the volume at one moment, between two operations.
//
// A host has one owner at a time: a lock that goes with the process. Errors carry the errno that a
// system call would give (Error::os_errno), as meta.h says. After the journal or the database
// failed, every call answers kIo until the host is opened again.
// Threads: all calls from any thread. Lifetime: volumes and views keep their host open.
#pragma once

#include <array>
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
#include "penstock/meta.h"
#include "penstock/result.h"
#include "penstock/store.h"
#include "penstock/units.h"

namespace penstock::volume {

// When what was written goes from the journal to the store.
struct WritebackOptions {
  uint64_t journal_bytes = 4 * kGiB;               // Then writers wait.
  Nanoseconds max_age = std::chrono::seconds(30);  // At the latest.
  // Or as soon as there is so much, but for no more than half of the journal; or an object's worth
  // that goes to another machine, while nothing is written. On this one it can wait: what is
  // overwritten meanwhile need not be moved.
  uint64_t start_bytes = 2 * kGiB;
  uint32_t parallel = 4;  // Objects on their way at once; 32 MiB of memory each.
};

struct HostOptions {
  io::FileSystem* file_system = nullptr;  // Null: the local one.
  uint64_t memory_bytes = 256 * kMiB;     // Of decoded frames, read ahead included: a ceiling.
  std::shared_ptr<cache::Cache> cache = nullptr;  // In front of the store, where that is far.
  WritebackOptions writeback = {};
  Nanoseconds io_timeout =
      std::chrono::seconds(60);  // Of a request to the store, with its retries.
  Nanoseconds commit_every = std::chrono::seconds(5);
  // Whoever closes it last waits until all content is in the store, for as long as that goes on.
  bool drain_on_close = false;
  // False: nothing is committed or moved but when it is asked for. For tests.
  bool background = true;
  uint64_t segment_bytes = 64 * kMiB;  // Of the journal.
  // Wraps the store that the volume names: for tests.
  std::function<std::unique_ptr<store::ObjectStore>(std::unique_ptr<store::ObjectStore>)>
      wrap_store = nullptr;
  std::function<meta::Time()> now = nullptr;  // The system's clock when empty.
};

struct NewVolume {
  std::string name;
  uint64_t block_bytes = 4 * kMiB;  // A power of two, 64 KiB to 16 MiB.
  codec::CodecSpec codec = {};
  std::optional<Nanoseconds> retention = Nanoseconds(0);
  std::string store = {};  // Address; empty: "blocks" beside the database.
  meta::Quota quota = {};
};

// Bytes of a file where they were found: what is in memory is not copied.
struct Pieces {
  std::vector<std::span<const std::byte>> spans;    // In order.
  std::vector<std::shared_ptr<const void>> owners;  // Of the memory of some of them.
  size_t bytes = 0;                                 // In all.
};

// A state of a volume that can be read. Offsets beyond the end give 0 bytes.
class VolumeView {
 public:
  virtual ~VolumeView() = default;
  virtual std::array<std::byte, 16> uuid() const = 0;  // Of the volume.
  virtual meta::View& names() = 0;
  virtual Result<size_t> read(meta::Ino ino, uint64_t offset, std::span<std::byte> into) = 0;
  // Up to as many bytes as `scratch` has, which takes those that have to be copied.
  virtual Result<Pieces> read_pieces(meta::Ino ino, uint64_t offset,
                                     std::span<std::byte> scratch) = 0;
  // Begins to load what will be read.
  virtual void prefetch(meta::Ino ino, uint64_t offset, uint64_t length) = 0;
};

class Volume : public VolumeView {
 public:
  virtual meta::Settings settings() = 0;

  virtual Result<meta::Inode> create(meta::Ino parent, std::string_view name,
                                     const meta::NewInode& inode) = 0;
  virtual Result<meta::Inode> link(meta::Ino ino, meta::Ino parent, std::string_view name) = 0;
  virtual Result<meta::Inode> unlink(meta::Ino parent, std::string_view name) = 0;
  virtual Result<meta::Inode> remove_directory(meta::Ino parent, std::string_view name) = 0;
  virtual Result<meta::Renamed> rename(meta::Ino parent, std::string_view name,
                                       meta::Ino new_parent, std::string_view new_name,
                                       meta::Rename mode) = 0;
  virtual Result<meta::Inode> change(meta::Ino ino, const meta::Changes& changes) = 0;
  virtual Result<void> set_xattr(meta::Ino ino, std::string_view name, std::string_view value,
                                 meta::XattrMode mode) = 0;
  virtual Result<void> remove_xattr(meta::Ino ino, std::string_view name) = 0;

  // Keeps an inode while somebody has it open, or may name it by its number: one that loses its last
  // name goes with the last let_go(). ENOENT when it is not there.
  virtual Result<meta::Inode> hold(meta::Ino ino) = 0;
  virtual void let_go(meta::Ino ino, uint64_t times = 1) = 0;

  // Any length; in pieces of up to 1 MiB, of which an error leaves the first ones done.
  virtual Result<void> write(meta::Ino ino, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<meta::Inode> punch(meta::Ino ino, uint64_t offset, uint64_t length,
                                    bool zeros) = 0;
  virtual Result<meta::Inode> allocate(meta::Ino ino, uint64_t offset, uint64_t length,
                                       bool grow) = 0;
  virtual Result<meta::Inode> copy_range(meta::Ino from, uint64_t from_offset, meta::Ino to,
                                         uint64_t to_offset, uint64_t length) = 0;

  // Everything that returned before is durable.
  virtual Result<void> sync() = 0;

  // A past version, kept while it is held. kNotFound when it is not there any more.
  virtual Result<std::unique_ptr<VolumeView>> at(meta::Version version) = 0;
};

struct Pending {
  uint64_t journal_bytes = 0;  // On the local drive.
  uint64_t content_bytes = 0;  // Of those, content that is not in the store yet.
  meta::Time oldest = 0;       // Since when; 0: nothing is pending.
};

struct HostStatus {
  Pending pending;
  meta::Version version = 0;
  uint64_t memory_bytes = 0;  // Held now.
  uint64_t stored_bytes = 0;  // In objects.
  uint64_t live_bytes = 0;    // Of those, referred to.
  uint64_t objects = 0;
};

struct GcOptions {
  bool dry_run = false;
  double compact_below = 0.5;  // Objects of which less than this is referred to are rewritten.
  Nanoseconds io_timeout = std::chrono::seconds(60);
  std::stop_token cancel = {};  // Then kCancelled; what was done stays done.
};

struct GcReport {
  uint64_t rows = 0;         // Of the past, forgotten.
  uint64_t compacted = 0;    // Objects rewritten.
  uint64_t moved_bytes = 0;  // In them.
  uint64_t deleted = 0;      // Objects.
  uint64_t orphans = 0;      // Objects that a crash left, deleted too.
  uint64_t freed_bytes = 0;
};

struct FsckOptions {
  bool read_content = true;  // False: only whether objects are there, and long enough.
  // Mends what can be without touching names or content: counts, rows that a dead owner left, and, if
  // nothing else is wrong, objects that nothing refers to. What is left is in the findings.
  bool repair = false;
  std::function<void(uint64_t files, uint64_t bytes)> progress = nullptr;
  std::stop_token cancel = {};
};

struct Finding {
  std::string volume;
  std::string path;  // Empty where no file is concerned.
  std::string what;
};

struct FsckReport {
  uint64_t files = 0;
  uint64_t bytes = 0;  // Of content that was verified.
  std::vector<Finding> findings;
  std::vector<std::string> repaired;  // In words.
};

class Host {
 public:
  virtual ~Host() = default;

  virtual Result<std::vector<std::string>> volumes() = 0;
  virtual Result<std::shared_ptr<Volume>> open(std::string_view name) = 0;

  // All changes up to now become a version, durable.
  virtual Result<meta::Version> commit() = 0;
  // Waits until all content is in the store, and says how much is left as it goes on: from any
  // thread, one at a time. After the deadline nothing is begun any more, what is on its way may take
  // `io_timeout`: kTimeout. kCancelled comes at once.
  virtual Result<void> drain(Deadline deadline,
                             const std::function<void(const Pending&)>& progress = {},
                             const std::stop_token& cancel = {}) = 0;
  virtual Result<HostStatus> status() = 0;
  // Sets those metrics (docs/METRICS.md) that are only known when somebody looks: what waits in the
  // journal, memory. Cheap. It is done every few seconds without being asked.
  virtual void note_metrics() = 0;

  virtual Result<void> set_settings(std::string_view volume, const meta::Settings& settings) = 0;
  virtual Result<void> clone(std::string_view volume, meta::Version version,
                             std::string_view name) = 0;
  virtual Result<void> remove(std::string_view volume) = 0;
  virtual Result<GcReport> gc(const GcOptions& options) = 0;
  virtual Result<FsckReport> fsck(const FsckOptions& options) = 0;
  virtual meta::Database& database() = 0;
};

// A new directory for volumes, with one in it. kExists when there is one.
Result<std::shared_ptr<Host>> create_host(const std::string& directory, const NewVolume& volume,
                                          const HostOptions& options);
// kNotFound; kBusy: somebody else owns it (the message says who); kUnsupported: of a newer version.
Result<std::shared_ptr<Host>> open_host(const std::string& directory, const HostOptions& options);

}  // namespace penstock::volume
