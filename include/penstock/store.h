// Objects. S3, a directory of objects, a plain tree of files, memory: each is an ObjectStore, and
// so is whatever wraps another (a cache, a counter, one that fails on purpose).
//
//   auto store = PENSTOCK_TRY(store::open_store("s3://bucket/prefix", {}));
//   PENSTOCK_TRY(store->put("a/b", bytes));                    // visible to everyone, whole
//   PENSTOCK_TRY(store->flush());                              // and now it survives a power cut
//   store::GetResult got = PENSTOCK_TRY(store->get("a/b", offset, into));
//
// What every store keeps to, and the conformance tests check:
//
// Keys are 1 to 1024 bytes, any but NUL; they sort as bytes. No key begins or ends with '/', or has
// an empty, "." or ".." part: such keys name nothing portable and are refused with kInvalid. A
// store may take fewer, and then refuses a put with kInvalid too, while get and head may answer
// kNotFound: a tree of files no part above 255 bytes, none that begins with ".penstock-tmp-", and
// not both "a" and "a/b"; S3 only UTF-8.
//
// Atomic: a reader sees the old object or the new one, whole, never a mixture, also after kill -9.
// After a power cut an object that was put and not flushed is the old one, the new one or (if it
// was new) absent; never torn.
//
// Versions: every object has an etag that changes when its bytes do, and may when they do not (a
// tree's, made of size, mtime and inode, can miss a change of equal size within one tick of the
// clock, or by puts that are told the same mtime). A get with if_match fails with kChanged rather
// than mix two versions.
//
// Errors: kNotFound for a missing key (also from get, head, copy; remove of a missing key
// succeeds), kChanged when if_match fails, kExists when if_absent does. `retryable` is set when the
// same call may succeed later; stores that talk to a network have retried already, within the
// deadline. An error names the object, never a secret.
//
// Threads: all calls from any thread. `done` is called exactly once, on a thread of the store,
// never from inside the call; it must not block (starting another asynchronous call is fine) and
// must not throw. So a blocking call must not be made from inside `done`.
// Lifetime: spans given to a call stay valid until its `done`. A store outlives its calls: its
// destructor lets those under way finish, without cancelling them, and must not run inside a
// `done`. Uploads go before their store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::store {

template <typename T>
using Done = std::function<void(Result<T>)>;

struct ObjectInfo {
  std::string key;
  uint64_t size = 0;
  std::string etag;  // Opaque, without quotes. Empty where the store did not say (some listings).
  int64_t mtime_ns = 0;  // Since the epoch.
  // What put() was told to keep. Of a tree always the file's own; of S3 where there is such a thing,
  // but not in listings, which do not tell; of others nothing.
  std::optional<int64_t> kept_mtime_ns = {};
  std::optional<uint32_t> kept_mode = {};
};

// Common to all calls.
struct CallOptions {
  Deadline deadline = kNoDeadline;  // Then kTimeout. Retries count against it.
  std::stop_token cancel = {};  // Then kCancelled, soon; the outcome of a write is then unknown.
};

struct GetOptions : CallOptions {
  // An etag: kChanged when the object has another. Empty: any.
  std::string if_match;
  // With if_match: the size of that version, where the caller knows it. Saves a cache from asking.
  std::optional<uint64_t> size = {};
  // From the source, past every cache on the way: for a reader that found wrong bytes.
  bool bypass_cache = false;
};

struct GetResult {
  // Written to the front of `into`; less than its size only where the object ends.
  size_t bytes = 0;
  ObjectInfo info;  // Of the whole object, as of this read.
};

struct PutOptions : CallOptions {
  // kExists when the key is there. kUnsupported where !capabilities().put_if_absent.
  bool if_absent = false;
  // The time of change and the permission bits of what this is a copy of, kept with the object where
  // the store can, and by copy(): a tree gives them to the file (so that ObjectInfo::mtime_ns is this
  // one), S3 records them in its metadata ("mtime", "mode"). Others ignore them. Of the mode the last
  // nine bits count: an object makes no program run as somebody else.
  std::optional<int64_t> mtime_ns = {};
  std::optional<uint32_t> mode = {};
  // Of an upload: how large it will be, where that is known. S3 then makes its parts large enough.
  std::optional<uint64_t> size = {};
};

inline constexpr uint32_t kKeptModeBits = 0777;

struct ListOptions : CallOptions {
  std::string prefix;  // Only keys that begin with it.
  // Keys with a '/' after the prefix are folded into `folders`, each named once.
  bool by_folder = false;
  // Only names after this one, be they keys or (with by_folder) folders: `next` of the page before,
  // or any other string. So after "a/", or after "a/b", the folder "a/" is not shown.
  std::string start_after;
  uint32_t limit = 1000;  // At most this many objects and folders in the page. 1 to 1000.
};

// A listing of several pages is no snapshot: what is put or removed between them, by this store too,
// is seen or not.
struct ListPage {
  std::vector<ObjectInfo> objects;   // Sorted by key.
  std::vector<std::string> folders;  // Sorted; each ends with '/'.
  // Keys and folders of S3 that no store can name ("dir/", "a//b", "../x"), for those who want to
  // know of them; of a folder only the key is set. Where the store is a folder of the bucket, the
  // object that has its name with '/' is one of them, with the key "". They do not count for the
  // limit, and a page may have nothing else.
  std::vector<ObjectInfo> odd;
  std::optional<std::string>
      next;  // start_after for the next page; nothing when this was the last.
};

struct RemoveFailure {
  std::string key;
  Error error;
};

struct Capabilities {
  bool writable = true;
  bool put_if_absent = true;
  // It lies on other machines: what is read comes over a network, and others may see and change it.
  bool shared = true;
  bool any_bytes = true;  // Keys need not be UTF-8.
  uint32_t key_bytes_max = 1024;
};

// A large object written piece by piece, in bounded memory. Nothing is visible before finish();
// destroying it unfinished aborts and leaves nothing behind (but for a tree's directories).
// Deadline and cancel cover the whole upload.
// Threads: one at a time. Blocking.
class Upload {
 public:
  virtual ~Upload() = default;
  // Takes the next bytes; they may be reused on return. Waits while too much is in flight. After an
  // error only abort().
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  // Makes the object visible, whole; kExists comes here when if_absent was asked for. After it,
  // failed or not, other calls answer kClosed and abort() does nothing.
  virtual Result<ObjectInfo> finish() = 0;
  virtual void abort() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Bytes [offset, offset + into.size()) of the object, or those of them that it has. An offset at
  // or past the end gives 0 bytes, not an error; an empty `into` is a head() with if_match.
  virtual void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                         GetOptions options, Done<GetResult> done) = 0;
  // Makes the object visible, whole and at once, replacing any other under that key. Not yet
  // durable: see flush().
  virtual void async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                         Done<ObjectInfo> done) = 0;
  virtual void async_head(std::string key, CallOptions options, Done<ObjectInfo> done) = 0;
  virtual void async_list(ListOptions options, Done<ListPage> done) = 0;
  // Removes all; the answer lists those that could not be, with kInvalid for what cannot be a key.
  // An error means that nothing is known.
  virtual void async_remove(std::vector<std::string> keys, CallOptions options,
                            Done<std::vector<RemoveFailure>> done) = 0;
  // As get and put, without the bytes coming here where the store can do that.
  virtual void async_copy(std::string from, std::string to, CallOptions options,
                          Done<ObjectInfo> done) = 0;
  // On success every put, finish, copy and remove of this process that completed before the call
  // survives a power cut. After a failure, what was put since the last successful flush must be put
  // again: it may be gone, and what it replaced be seen again. (A flush that only timed out or was
  // cancelled has lost nothing.)
  virtual void async_flush(CallOptions options, Done<void> done) = 0;

  virtual Result<std::unique_ptr<Upload>> start_upload(std::string key, PutOptions options) = 0;

  virtual Capabilities capabilities() const = 0;
  // For people and logs: "s3://bucket/prefix", "tree:/mnt/data". Without secrets.
  virtual std::string description() const = 0;
  // Where the objects are, for telling apart what was cached: identity() + key is the same for two
  // stores of one machine only when it is the same object, also on another day and in another
  // process. "s3://HOST[:PORT]/bucket/prefix/", whoever asks and in whatever style; "tree:/mnt/data/"
  // and "file:/mnt/objects/" without links in them; "memory:RANDOM/", as for all that is gone with
  // the process. Always the same for one store.
  virtual std::string identity() const = 0;

  // The same, blocking. Not from inside a `done`.
  Result<GetResult> get(std::string key, uint64_t offset, std::span<std::byte> into,
                        GetOptions options = {});
  Result<ObjectInfo> put(std::string key, std::span<const std::byte> bytes,
                         PutOptions options = {});
  Result<ObjectInfo> head(std::string key, CallOptions options = {});
  Result<ListPage> list(ListOptions options);
  Result<std::vector<RemoveFailure>> remove(std::vector<std::string> keys,
                                            CallOptions options = {});
  Result<void> remove(std::string key, CallOptions options = {});
  Result<ObjectInfo> copy(std::string from, std::string to, CallOptions options = {});
  Result<void> flush(CallOptions options = {});
};

// The whole of an object of unknown size; kNoMemory when it is larger than `limit_bytes`.
Result<std::vector<std::byte>> read_object(ObjectStore& store, const std::string& key,
                                           uint64_t limit_bytes, GetOptions options = {});
// Calls `visit` for every object under `prefix`, in key order, until it returns false.
Result<void> for_each_object(ObjectStore& store, const std::string& prefix,
                             const std::function<bool(const ObjectInfo&)>& visit,
                             CallOptions options = {});

// Nothing, or the reason why no store takes this key.
Result<void> check_key(std::string_view key);

struct S3Options;

struct StoreOptions {
  // For file: and tree:. Null: the local one, made once for the process.
  io::FileSystem* file_system = nullptr;
  bool read_only = false;         // Writes answer kPermission; flush succeeds.
  const S3Options* s3 = nullptr;  // Null: from the environment (see s3.h).
};

// By address: "s3://bucket/prefix", "file:/dir" (a directory of objects), "tree:/dir" or a plain
// path (a tree of files seen as objects), "memory:" (each a new, empty one), or of a scheme that was
// added. kInvalid says what was expected.
Result<std::unique_ptr<ObjectStore>> open_store(const std::string& address,
                                                const StoreOptions& options);

// Addresses that begin with "NAME://" are opened by `open` from now on: for stores of layers above. Once
// per name, before the first open_store().
using OpenScheme = Result<std::unique_ptr<ObjectStore>> (*)(std::string_view rest,
                                                            const StoreOptions& options);
void add_store_scheme(const std::string& name, OpenScheme open);

// A directory of objects that belongs to Penstock (docs/formats/file-store.md). One machine at a
// time; several processes. Made when it is missing or empty, unless read_only; kInvalid when it
// holds something else. Listings leave the etag out. `fs` outlives it.
Result<std::unique_ptr<ObjectStore>> open_file_store(io::FileSystem& fs,
                                                     const std::string& directory,
                                                     bool read_only = false);

struct TreeOptions {
  bool read_only = false;
  // true: put() syncs the file's bytes before publishing its name, so that a power cut never leaves
  // a torn file. false: only flush() does, by syncing the whole file system: faster for bulk
  // copies, and a power cut before flush() may leave torn files.
  bool sync_before_publish = true;
};
// Files below `directory`, which must be there, as they are; keys are their relative paths.
// Symbolic links are followed when they lead to regular files below it, and are otherwise not
// there; links to directories never are. (In a `directory` given by a relative path no link is
// followed.) Directories are made for puts and stay when they become empty; an empty one is in no
// listing. Names that begin with ".penstock-tmp-" are unfinished puts, and not there; those that a
// killed process left may be deleted when they are old. What is neither a file nor "not there" by
// the above (a dangling link, a device) keeps its name from being put: kExists or kInvalid. `fs`
// outlives it.
Result<std::unique_ptr<ObjectStore>> open_tree_store(io::FileSystem& fs,
                                                     const std::string& directory,
                                                     const TreeOptions& options = {});

std::unique_ptr<ObjectStore> make_memory_store();

}  // namespace penstock::store
