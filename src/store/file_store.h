// A directory of objects that belongs to Penstock. docs/formats/file-store.md says what is on disk.
//
// An object is in one of three places, and moves through them in this order:
//   pending-BOOT/    put and visible, not durable;
//   promoting-BOOT/  being made durable by a flush: nothing is added or replaced here;
//   objects/         durable, or older than the last power cut: every file here was synced first.
// Where a key is in several, the first place holds its newest version, and readers look in this
// order, so that an object that moves while they look is not missed.
//
// Names change only under names_lock_, which is never held across a sync. A put renames a finished
// temporary file into pending/. A flush renames all of pending/ to promoting/ at once, syncs the
// files, moves them to objects/ and syncs those directories. A remove begins with the oldest
// version, so that no older one appears in the place of a newer.
//
// After a power cut the boot id differs, and what other boots left pending is thrown away: it may
// be torn. After kill -9 it is not, and is flushed by whoever flushes next.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/blocking_store.h"
#include "store/directory_sync.h"
#include "store/list_page.h"
#include "store/object_file.h"
#include "store/store_lock.h"

namespace penstock::store {

// A directory for unfinished files, of this opening of the store alone. Its lock shows to others
// that it is in use.
struct TemporaryDirectory {
  std::string path;
  std::unique_ptr<io::FileLock> lock;
};

// What opening does before the store is made. Checks that the directory is a file store that this
// version understands; makes one of a missing or empty directory unless read_only.
Result<void> prepare_file_store(io::FileSystem& fs, const std::string& root, bool read_only);
// Removes what other boots left pending, and unfinished files whose writers are gone.
Result<void> discard_leftovers(io::FileSystem& fs, const std::string& root);
Result<TemporaryDirectory> make_temporary_directory(io::FileSystem& fs, const std::string& root);

// The names that a scan found and no page has shown yet.
// Threads: all calls from any thread.
class ListCursor {
 public:
  ListCursor(const ListOptions& options, std::string position);

  // True when a page asked for with `options` begins where this one stands, and the scan is recent.
  bool continues(const ListOptions& options) const;
  bool by_folder() const { return options_.by_folder; }
  void add(std::string_view key);
  std::optional<std::string> take();
  bool exhausted() const;  // Nothing to take, and nothing was left out.
  // Where to scan on after the last take(), when something was left out.
  std::optional<std::string> left_out_after() const;

 private:
  const ListOptions options_;
  const Deadline stale_at_;
  mutable std::mutex mutex_;
  std::string position_;
  NameWindow names_;
};

class FileStore final : public BlockingStore {
 public:
  // Read-only without a temporary directory.
  FileStore(io::FileSystem& fs, std::string root, std::string identity,
            std::optional<TemporaryDirectory> temporary);
  ~FileStore() override;

  Capabilities capabilities() const override {
    return {.writable = temporary_.has_value(), .shared = false};
  }
  std::string description() const override { return "file:" + root_; }
  std::string identity() const override { return identity_; }

 protected:
  Result<GetResult> do_get(const std::string& key, uint64_t offset, std::span<std::byte> into,
                           const GetOptions& options) override;
  Result<ObjectInfo> do_put(const std::string& key, std::span<const std::byte> bytes,
                            const PutOptions& options) override;
  Result<ObjectInfo> do_head(const std::string& key, const CallOptions& options) override;
  Result<ListPage> do_list(const ListOptions& options) override;
  Result<std::vector<RemoveFailure>> do_remove(const std::vector<std::string>& keys,
                                               const CallOptions& options) override;
  Result<ObjectInfo> do_copy(const std::string& from, const std::string& to,
                             const CallOptions& options) override;
  uint64_t flush_failures() const override { return flush_failures_.load(); }
  Result<void> do_flush(const CallOptions& options, uint64_t failures_before) override;
  Result<std::unique_ptr<Upload>> do_start_upload(const std::string& key,
                                                  const PutOptions& options) override;

 private:
  Result<std::unique_ptr<TemporaryFile>> start_object();
  // Completes the object and makes it visible.
  Result<ObjectInfo> publish(TemporaryFile& file, const std::string& key,
                             const PutOptions& options);
  std::string object_path(const std::string& key) const;
  // Where the key may be, newest first.
  std::vector<std::string> places(const std::string& key) const;
  Result<OpenObject> find(const std::string& key);
  Result<io::FileInfo> stat(const std::string& key);
  Result<void> remove_one(const std::string& key);

  // file_store_list.cc
  Result<std::shared_ptr<ListCursor>> scan(const ListOptions& options, const std::string& after,
                                           bool& kept);
  Result<void> scan_into(ListCursor& cursor, const CallOptions& options);
  Result<ListPage> fill_page(const ListOptions& options, std::shared_ptr<ListCursor> cursor,
                             bool& kept);
  void note_put(const std::string& key);
  void note_removed();

  // file_store_flush.cc, each requires flush_lock_.
  Result<void> flush_in_turn(const CallOptions& options);
  Result<void> start_promoting(const CallOptions& options);
  Result<void> promote(const CallOptions& options);
  Result<std::vector<std::string>> promoting_paths(size_t limit);
  Result<void> make_files_durable(const std::vector<std::string>& paths);
  Result<void> move_to_objects(const std::vector<std::string>& paths, const CallOptions& options);
  Error lose_promoting(const Error& error);
  Result<void> discard_promoting();
  Result<void> check_losses();

  io::FileSystem& fs_;
  const std::string root_;
  const std::string identity_;
  const std::string pending_;
  const std::string promoting_;
  const std::string objects_;
  const std::string losses_;  // Replaced by a flush that lost objects, for other processes to see.
  std::optional<TemporaryDirectory> temporary_;
  const uint64_t session_;  // With a counter, the version of every object put.
  std::atomic<uint64_t> counter_{0};

  StoreLock names_lock_;
  StoreLock flush_lock_;
  DirectorySync directories_;
  std::atomic<uint64_t> flush_failures_{0};
  bool discard_promoting_ = false;  // Under flush_lock_: a sync of it failed and it is still there.
  std::string losses_seen_;         // Under flush_lock_.

  std::mutex cursor_mutex_;
  std::shared_ptr<ListCursor> cursor_;
  bool cursor_in_use_ = false;
};

}  // namespace penstock::store
