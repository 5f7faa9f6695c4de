// How gets go through the cache. One object in several files, by what happens to a read:
//
//   cached_store.cc    which version is meant; the calls that are passed on
//   piece_reads.cc     the pieces of a read: from memory, from a drive, or a miss
//   window_loads.cc    whole windows: loaded once for all who wait, read ahead, filled
//   staging.cc         windows onto drives, ahead of their readers
//   granule_reads.cc   random reads of objects that do not fit: small entries
#pragma once

#include <memory>
#include <string>

#include "base/gate.h"
#include "cache/cache_core.h"
#include "cache/get_call.h"
#include "cache/streams.h"
#include "cache/versions.h"
#include "penstock/cache.h"

namespace penstock::cache {

// What random reads of objects that do not fit are kept in.
inline constexpr uint32_t kGranuleBytes = 64 * 1024;

// Sequential reads below this are served from whole windows in memory: one transfer for many.
inline constexpr size_t kSmallRead = 512 * 1024;

// Keeps the store open while somebody works for it.
using PassRef = std::shared_ptr<Gate::Pass>;

class CachedStoreImpl final : public CachedStore {
 public:
  CachedStoreImpl(std::unique_ptr<store::ObjectStore> source, std::shared_ptr<CacheCore> core);
  ~CachedStoreImpl() override { gate_.close(); }

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override;
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override;
  void async_head(std::string key, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override;
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override;
  void async_remove(std::vector<std::string> keys, store::CallOptions options,
                    store::Done<std::vector<store::RemoveFailure>> done) override;
  void async_copy(std::string from, std::string to, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override;
  void async_flush(store::CallOptions options, store::Done<void> done) override;
  Result<std::unique_ptr<store::Upload>> start_upload(std::string key,
                                                      store::PutOptions options) override;
  store::Capabilities capabilities() const override { return source_->capabilities(); }
  std::string description() const override { return source_->description(); }
  std::string identity() const override { return source_->identity(); }

  std::unique_ptr<Stager> make_stager(const StageOptions& options) override;
  void async_stage(Range range, bool verify, store::CallOptions options,
                   store::Done<uint64_t> done) override;
  const std::shared_ptr<Cache>& cache() const override { return cache_; }

  // For the stager.
  CacheCore& core() { return *core_; }
  uint64_t window_bytes() const { return core_->options().window_bytes; }
  VersionRef version_of(const Range& range) const;
  EntryKey window_key(const Version& version, uint64_t window) const;
  PassRef enter();
  // Has one window on its drive: answers how many bytes were fetched for it.
  void stage_window(const VersionRef& version, uint64_t window, bool verify,
                    store::CallOptions options, store::Done<uint64_t> done);

 private:
  using CallRef = std::shared_ptr<GetCall>;
  class LearningUpload;

  // Where a piece lies: the entry of its window.
  struct Place {
    EntryKey key;
    EntryId id;
  };
  Place place_of(const Version& version, uint64_t window) const;

  // cached_store.cc
  void resolve(const CallRef& call);
  void begin(const CallRef& call, VersionRef version);
  void pass_on(const CallRef& call);
  void complete(const CallRef& call);

  // piece_reads.cc
  void pump(const CallRef& call);
  void end_piece(const CallRef& call, const Result<void>& outcome);
  void read_piece(const CallRef& call, const Piece& piece);
  void read_from_drive(const CallRef& call, const Piece& piece, const Place& place);
  void missed(const CallRef& call, const Piece& piece, const Place& place);
  // Bytes of the object straight into the caller's memory.
  void read_from_source(const CallRef& call, uint64_t offset, std::span<std::byte> into,
                        std::function<void(Result<void>)> done);
  void read_exactly(const CallRef& call, const Piece& piece, const Place& place);
  void bypass(const CallRef& call, const Piece& piece, const Place& place);
  void give(const CallRef& call, const Piece& piece, const EntryId& id, const WindowBytes& window,
            bool was_in_memory);
  void note_used(const EntryId& id, uint64_t bytes);
  void note_missed(const EntryId& id, uint64_t bytes);
  // For hit rates: every byte that a reader gets, once.
  void count_read(const EntryId& id, uint64_t hit_bytes, uint64_t miss_bytes);
  MemoryWindows::Waiter waiter_for(const CallRef& call, const Piece& piece, const EntryId& id);

  // window_loads.cc
  struct Load {
    PassRef pass;
    VersionRef version;
    Place place;
    bool look_on_drive = true;
    bool reserved = false;
    bool may_wait = true;  // For memory.
  };
  // Joins the load of the window, or starts it.
  void load(Load load, MemoryWindows::Waiter waiter);
  void load_from_drive(const std::shared_ptr<Load>& load);
  void load_from_source(const std::shared_ptr<Load>& load);
  void loaded(const std::shared_ptr<Load>& load, std::shared_ptr<io::Buffer> buffer,
              const Result<store::GetResult>& got);
  void end_load(const std::shared_ptr<Load>& load, Result<WindowBytes> outcome);
  void read_ahead(const CallRef& call);

  // staging.cc
  void fetch_to_drive(const VersionRef& version, const Place& place, const store::CallOptions& call,
                      store::Done<uint64_t> done);

  void fill_staged(const PassRef& pass, const VersionRef& version, const Place& place,
                   const std::shared_ptr<io::Buffer>& buffer, const store::Done<uint64_t>& done);

  // granule_reads.cc
  struct GranuleRead;
  bool wants_granules(const Version& version) const;
  Place granule_of(const Version& version, uint64_t granule) const;
  void read_granules(const CallRef& call, const Piece& piece);
  void drop_granules(const Version& version, const Place& window, const Piece& piece);
  void granules_looked_up(const std::shared_ptr<GranuleRead>& read);
  bool reserve_granules(const GranuleRead& read, size_t first, size_t count);
  void fetch_granules(const std::shared_ptr<GranuleRead>& read, size_t first, size_t count);
  void granules_fetched(const std::shared_ptr<GranuleRead>& read, size_t first, size_t count,
                        const io::Buffer& buffer);
  void cancel_granules(const GranuleRead& read, size_t first, size_t count);
  void end_granule_run(const std::shared_ptr<GranuleRead>& read, const Result<void>& outcome);

  const std::shared_ptr<CacheCore> core_;
  const std::shared_ptr<Cache> cache_;  // The same.
  const std::unique_ptr<store::ObjectStore> source_;
  const std::string identity_;
  Versions versions_;
  Streams streams_;
  Gate gate_;
};

// What a window of a source must be for its bytes to be used: all of it, of this version.
Result<void> check_window(const Result<store::GetResult>& got, const Version& version,
                          size_t bytes);

}  // namespace penstock::cache
