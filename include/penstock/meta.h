// Metadata of volumes: names, inodes, where content lies, and every version of it that is kept.
//
//   auto database = PENSTOCK_TRY(meta::open_sqlite(fs, "/data/volumes/train.db", {}));
//   auto names = PENSTOCK_TRY(database->open("train"));
//   auto file = PENSTOCK_TRY(names->create(meta::kRoot, "a", {.mode = S_IFREG | 0644}, now));
//   PENSTOCK_TRY(database->commit({.now = now}));                      // one version, durable
//   auto before = names->at(version);                                  // the past, read-only
//
// How it is meant to be used. A database belongs to one owner at a time and holds one volume, with its
// clones. Every call that changes something does so at once, whole or not at all, and is seen by the
// calls that follow; commit() makes all changes since the last one durable, together, as one version.
// A power cut or a crash before it loses them together: whoever promised one before its commit keeps a
// journal of his own, and journal() tells him at open how much of it the database has.
//
// Replay. The numbers that calls give (of inodes, cookies, chunks) follow from what was committed and
// from the calls that changed something since, in their order: the same calls on the same committed
// state give the same numbers, whichever failed, or only read, in between. So a journal in that order
// needs to hold what was asked, and nothing of what was answered. Where some calls are in no journal,
// create() is told the number that it gave before (NewInode::ino). Only data_version comes out anew.
//
// Errors. What POSIX has a name for has its errno (ENOENT, EEXIST, ENOTEMPTY, ENAMETOOLONG, ...) in
// Error::os_errno. A call that failed changed nothing. Where what the database is kept on fails (kIo,
// kCorrupt, kNoMemory, kNoSpace beside quotas) the changes since the last commit may be lost: if so,
// every call answers kIo from then on, and the database is to be opened again.
// Threads: all calls from any thread; they take turns.
// Lifetime: views, namespaces and pins may outlive their Database, whose files are closed with the last
// view and namespace. What was not committed by then is lost.
#pragma once

#include <sys/stat.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/frame.h"
#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::meta {

// Of an inode, in all volumes of a database: what was committed is never given again.
using Ino = uint64_t;
inline constexpr Ino kRoot = 1;
inline constexpr Ino kInoMax = uint64_t{1} << 62;
inline constexpr size_t kNameBytesMax = 255;
inline constexpr size_t kLinksMax = 65'000;
inline constexpr uint64_t kFileBytesMax = INT64_MAX;
inline constexpr uint64_t kChunkBytesMax = 16 * kMiB;  // Raw.
inline constexpr size_t kXattrNameBytesMax = 255;
inline constexpr size_t kXattrValueBytesMax = 64 * 1024;

// Of commits, from 1 on. What is not yet committed belongs to the next one.
using Version = uint64_t;
inline constexpr Version kLive = INT64_MAX;

using Time = int64_t;  // Nanoseconds since 1970.

struct Inode {
  Ino ino = 0;
  uint32_t mode = 0;  // Type and permission bits, as in stat(2).
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 0;      // 0: has no name any more, and lives until forget().
  uint64_t rdev = 0;       // Of device nodes.
  uint64_t size = 0;       // Of files and symbolic links; of a directory, how many entries it has.
  uint64_t allocated = 0;  // Bytes of a file that are no holes.
  Time atime = 0;
  Time mtime = 0;
  Time ctime = 0;
  // Another whenever the content of a file became another, also where a crash lost the one before.
  uint64_t data_version = 0;
  bool is_directory() const { return S_ISDIR(mode); }
};

struct NewInode {
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t rdev = 0;
  std::string target = {};  // Of symbolic links.
  // 0: the next number. Otherwise this one, larger than all that were given, up to kInoMax (kInvalid);
  // those in between are left out.
  Ino ino = 0;
};

// What is not given stays.
struct Changes {
  std::optional<uint32_t> permissions = std::nullopt;  // The twelve bits.
  std::optional<uint32_t> uid = std::nullopt;
  std::optional<uint32_t> gid = std::nullopt;
  std::optional<uint64_t> size = std::nullopt;
  std::optional<Time> atime = std::nullopt;
  std::optional<Time> mtime = std::nullopt;
};

struct Entry {
  std::string name;
  Ino ino = 0;
  uint32_t mode = 0;  // Only its type counts.
  uint64_t cookie =
      0;  // Of this entry, never 0: list() goes on after it. Stays while the name does.
};

// (a session of the owner, which no other one ever gets again; a number in it, from 1 on). Sessions too
// begin with 1: under 0 is what has a number of its own in all of them, as segments of a journal have.
struct ObjectId {
  uint32_t session = 0;
  uint32_t number = 0;
  auto operator<=>(const ObjectId&) const = default;
};

enum class ObjectKind : uint8_t {
  kData = 0,     // In the block store.
  kJournal = 1,  // A segment of the owner's journal: only this machine can read it.
};

enum class ObjectState : uint8_t {
  kPending = 0,    // May be in the store, whole, in part or not at all; nothing refers to it.
  kStored = 1,     // In the store, live: chunks may lie there.
  kCondemned = 2,  // Nothing refers to it, and nothing ever will: may be gone, once committed.
};

struct Object {
  ObjectId id = {};
  ObjectKind kind = ObjectKind::kData;
  ObjectState state = ObjectState::kPending;
  uint64_t bytes = 0;       // Stored.
  uint64_t live_bytes = 0;  // Of those, in chunks that any version refers to. 0: nothing needs it.
  Version changed = 0;      // In which it got its state.
};

// Where the bytes of a chunk are. May become another place of the same bytes at any time.
struct Place {
  ObjectId object = {};
  uint64_t offset = 0;  // In the object, of the first frame (or journal record).
  uint64_t stored = 0;  // Bytes there.
  uint64_t raw = 0;     // Bytes they stand for.
  codec::Codec codec = codec::Codec::kNone;
  uint64_t checksum = 0;  // Of the stored bytes, seeded by who they are.
  auto operator<=>(const Place&) const = default;
};

using ChunkId = uint64_t;  // Never reused. kZeros: bytes that were allocated and never written.
inline constexpr ChunkId kZeros = 0;

// A part of a file that is no hole.
struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  ChunkId chunk = kZeros;
  uint64_t chunk_offset = 0;  // In its raw bytes.
  Place place = {};           // Of the chunk, now.
};

struct Chunk {
  ChunkId id = 0;
  Place place;
  uint64_t references = 0;  // By extents of any version.
};

struct Xattr {
  std::string name;
  std::string value;
};

struct Totals {
  uint64_t bytes = 0;   // Sizes of all files, live ones only.
  uint64_t inodes = 0;  // Likewise, the root and those without a name too.
  auto operator<=>(const Totals&) const = default;
};

// One state of a volume. A past one never changes, and is there as long as a Pin holds it or retention
// does; kNotFound from all calls when it is gone.
class View {
 public:
  virtual ~View() = default;
  virtual Version version() const = 0;  // kLive, of what changes.

  virtual Result<Inode> inode(Ino ino) = 0;
  virtual Result<Inode> lookup(Ino directory, std::string_view name) = 0;  // "." and ".." too.
  // Up to `count` entries after `cookie` (0: from the first), "." and ".." not among them, in the order
  // of their making. Entries that come and go meanwhile may be seen or not; others are, once.
  virtual Result<std::vector<Entry>> list(Ino directory, uint64_t cookie, size_t count) = 0;
  // Of all entries, in whatever directory, that were made before: later ones have larger cookies.
  virtual uint64_t last_cookie() = 0;
  // As list(), in the order of their names (as bytes), from `from` on, that one included.
  virtual Result<std::vector<Entry>> list_names(Ino directory, std::string_view from,
                                                size_t count) = 0;
  virtual Result<std::string> symlink(Ino ino) = 0;
  // All extents that touch the range, in order, whole.
  virtual Result<std::vector<Extent>> extents(Ino ino, uint64_t offset, uint64_t length) = 0;
  virtual Result<std::string> xattr(Ino ino,
                                    std::string_view name) = 0;  // ENODATA when there is none.
  virtual Result<std::vector<std::string>> xattrs(Ino ino) = 0;
  virtual Result<Totals> totals() = 0;
};

enum class XattrMode : uint8_t { kSet, kCreate, kReplace };
enum class Rename : uint8_t { kReplace, kNoReplace, kExchange };

// What lost its last name. It keeps its content until forget().
struct Removed {
  Inode inode;  // As it is now: links tells whether anything is left.
};

struct Renamed {
  Inode moved;
  std::optional<Inode> replaced;  // links == 0: as Removed. kExchange: what took its place.
};

struct Quota {
  uint64_t bytes = 0;   // 0: none.
  uint64_t inodes = 0;  // Likewise.
};

struct Settings {
  std::array<std::byte, 16> uuid{};
  std::string name;
  uint64_t block_bytes = 4 * kMiB;  // A power of two, 64 KiB to 16 MiB.
  codec::CodecSpec codec;
  std::optional<Nanoseconds> retention = Nanoseconds(0);  // None: for ever.
  std::string store;                                      // Address of the block store.
  Quota quota;
};

// What is read, and changed, now. Every change takes the time that it is to bear.
class Namespace : public View {
 public:
  virtual Settings settings() = 0;
  // Name, retention, quota and codec; the rest stays as it was made.
  virtual Result<void> set_settings(const Settings& settings) = 0;

  // A file, directory, link or node, by mode. EDQUOT's place is taken by ENOSPC. In a directory with
  // S_ISGID it gets that one's group, and S_ISGID itself when it is a directory.
  virtual Result<Inode> create(Ino parent, std::string_view name, const NewInode& inode,
                               Time now) = 0;
  virtual Result<Inode> link(Ino ino, Ino parent, std::string_view name, Time now) = 0;
  virtual Result<Removed> unlink(Ino parent, std::string_view name, Time now) = 0;
  virtual Result<Removed> remove_directory(Ino parent, std::string_view name, Time now) = 0;
  // As renameat2(2): onto itself it does nothing; a directory never goes below itself (EINVAL).
  // In listings the new name stands where that name stood, or, in the same directory, the old one.
  virtual Result<Renamed> rename(Ino parent, std::string_view name, Ino new_parent,
                                 std::string_view new_name, Rename mode, Time now) = 0;
  // A size, be it the same, changes mtime too; everything but atime changes ctime. atime alone is
  // changed in place: it makes no version, and past ones may show the new one.
  virtual Result<Inode> change(Ino ino, const Changes& changes, Time now) = 0;
  virtual Result<void> set_xattr(Ino ino, std::string_view name, std::string_view value,
                                 XattrMode mode, Time now) = 0;
  virtual Result<void> remove_xattr(Ino ino, std::string_view name, Time now) = 0;
  // Whoever has it open has closed it: what it held goes. Only without a name (links == 0).
  virtual Result<void> forget(Ino ino) = 0;
  // Those without a name that nobody forgot: of an owner that is gone.
  virtual Result<std::vector<Ino>> nameless() = 0;

  // New content. `chunks` follow each other from `offset` on; what was there goes. Grows the file.
  // Each has up to kChunkBytesMax raw bytes, and lies inside an object that is kStored (kInvalid).
  virtual Result<Inode> write(Ino ino, uint64_t offset, std::span<const Place> chunks,
                              Time now) = 0;
  // A hole; sizes stay. `zeros`: allocated zeros in its place.
  virtual Result<Inode> punch(Ino ino, uint64_t offset, uint64_t length, bool zeros, Time now) = 0;
  // Allocated zeros where there are holes, be it a terabyte. `grow`: the size too.
  virtual Result<Inode> allocate(Ino ino, uint64_t offset, uint64_t length, bool grow,
                                 Time now) = 0;
  // The same chunks in a second place, up to where the source ends. Of one file only where the ranges
  // do not overlap (EINVAL).
  virtual Result<Inode> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset,
                                   uint64_t length, Time now) = 0;
  // The extents from the first to the last of `expected` become this one chunk, of as many bytes, holes
  // between them included, when they still are those; kChanged otherwise. Same bytes, so neither times
  // nor data_version change.
  virtual Result<void> merge(Ino ino, std::span<const Extent> expected, const Place& chunk) = 0;

  // A past one: what commit `version` left. kNotFound when it is not kept, or not there yet.
  virtual Result<std::unique_ptr<View>> at(Version version) = 0;
};

struct Snapshot {
  std::string name;
  Version version = 0;
  Time time = 0;
};

struct JournalPosition {
  // What records up to this one did is in the database, and nothing of later ones: whoever commits
  // keeps others from making changes that his journal has behind it.
  uint64_t sequence = 0;
};

struct Commit {
  Time now = 0;
  JournalPosition journal = {};
};

// Keeps a version, and all that it needs, from purge(). Let go of when destroyed; an owner that dies
// lets go of all.
class Pin {
 public:
  virtual ~Pin() = default;
  virtual Version version() const = 0;
};

struct Purged {
  uint64_t rows = 0;
  uint64_t chunks = 0;
  bool more = false;  // There was more to do than asked for.
};

class Database {
 public:
  virtual ~Database() = default;

  // Volumes: the one it was made for, and clones.
  virtual Result<std::vector<std::string>> volumes() = 0;
  virtual Result<std::unique_ptr<Namespace>> open(std::string_view volume) = 0;
  // Another volume that begins as `version` of this one (kLive: now), with the same content in the same
  // objects, and so in the same store. What has no name is left out. Takes as long as there are rows.
  virtual Result<void> clone(std::string_view volume, Version version,
                             const Settings& settings) = 0;
  // With its history, whatever is pinned: it is gone at once, and what it held with the purges that
  // follow. Objects become garbage where no other volume has them.
  virtual Result<void> remove(std::string_view volume) = 0;

  // All changes since the last one, durable on return; the version they became. Access times,
  // snapshots, purging and the journal's position alone make none (durable all the same): then it is
  // the last one. Neither the position nor the times of versions go back, whatever is given. After a
  // failure nothing more is accepted (kIo): the database is to be opened again.
  virtual Result<Version> commit(const Commit& commit) = 0;
  virtual JournalPosition journal() = 0;  // Of the last commit.
  virtual Version last_version() = 0;
  virtual Result<Time> time_of(Version version) = 0;
  // The newest version that is not younger. kNotFound when all are, or it is not kept.
  virtual Result<Version> version_at(Time time) = 0;
  virtual Result<std::unique_ptr<Pin>> pin(Version version) = 0;
  virtual Result<void> make_snapshot(std::string_view volume, std::string_view name,
                                     Version version) = 0;
  virtual Result<void> remove_snapshot(std::string_view volume, std::string_view name) = 0;
  virtual Result<std::vector<Snapshot>> snapshots(std::string_view volume) = 0;

  // A number for this opening of the database, never given before: durable before it is returned.
  virtual uint32_t session() const = 0;
  // Chunks refer only to objects that are stored. States go forward only, and to kCondemned only where no
  // chunk is referred to (kInvalid); one that is stored may grow.
  virtual Result<void> add_object(const Object& object) = 0;
  virtual Result<void> set_object(ObjectId id, ObjectState state, uint64_t bytes) = 0;
  virtual Result<void> drop_object(ObjectId id) = 0;  // Forgets one that is condemned or pending.
  virtual Result<std::vector<Object>> objects(ObjectId after, size_t count) = 0;
  // One of them, however many there are. kNotFound when it was never added, or dropped.
  virtual Result<Object> object(ObjectId id) = 0;
  // Those of kind kJournal, whatever their state. A segment without live_bytes may be used for something
  // else once that is committed; what lies in the others is to be moved first (chunks_of, move_chunk).
  virtual Result<std::vector<Object>> segments() = 0;
  // Those that lie there from `from_offset` on, in the order of their places.
  virtual Result<std::vector<Chunk>> chunks_of(ObjectId object, uint64_t from_offset,
                                               size_t count) = 0;
  // The same bytes lie elsewhere now: history and clones follow. kChanged unless it still lies `from`.
  virtual Result<void> move_chunk(ChunkId chunk, const Place& from, const Place& to) = 0;

  // Forgets what died before the horizon (retention, pins and snapshots of each volume), and chunks that
  // nothing refers to any more. At most about `rows` of work, so that others get their turn.
  virtual Result<Purged> purge(Time now, uint64_t rows) = 0;
  // What contradicts itself, in words; empty when all is well. Reads everything.
  virtual Result<std::vector<std::string>> check() = 0;
  // Counts again what can be counted (references, live bytes, totals, entries, links) where it is
  // wrong, and says what it was; to be committed. Names and content are never touched; nothing is where
  // the file itself is damaged. check() tells what is left.
  virtual Result<std::vector<std::string>> repair() = 0;
};

struct SqliteOptions {
  std::optional<Settings> create =
      std::nullopt;  // Make it, with this volume. kExists when it is there.
  Time now = 0;      // Of the root, and of the first version, when it is made.
  uint64_t cache_bytes = 64 * kMiB;
};

// A file `path`, and `path`-wal beside it. The caller sees to it that there is one owner. kUnsupported
// when a newer version of the format made it, kCorrupt when it is no database of ours. `fs` outlives the
// database, and all views and namespaces.
Result<std::unique_ptr<Database>> open_sqlite(io::FileSystem& fs, const std::string& path,
                                              const SqliteOptions& options);

}  // namespace penstock::meta
