#include "cache/tier.h"

#include <utility>

#include "cache/tier_fills.h"
#include "cache/tier_reads.h"
#include "cache/tier_shared.h"

namespace penstock::cache {

namespace {

class LocalTier final : public Tier {
 public:
  LocalTier(io::FileSystem& fs, TierOptions options, std::shared_ptr<io::BufferProvider> buffers)
      : shared_(fs, std::move(options), std::move(buffers)) {}
  ~LocalTier() override { shared_.stop(); }

  bool on() const override { return shared_.health.on(); }
  Result<void> wait_tried(Deadline deadline) override {
    return shared_.health.wait_tried(deadline);
  }

  void read(const EntryKey& key, const EntryId& version, uint32_t begin, uint32_t length,
            ReadDone done) override {
    reads_.read(key, version, begin, length, std::move(done));
  }
  void open_ahead(const EntryKey& key, const EntryId& version) override {
    reads_.open_ahead(key, version);
  }

  bool reserve(const EntryKey& key, const EntryId& version) override {
    return can_be_entry(key) && fills_.reserve(name_of(key, version));
  }
  void cancel_fill(const EntryKey& key, const EntryId& version) override {
    fills_.cancel(name_of(key, version));
  }
  void fill(EntryKey key, const EntryId& version, Filling filling, FillDone done) override {
    const EntryName name = name_of(key, version);
    fills_.fill(std::move(key), name, std::move(filling), std::move(done));
  }
  void drop(const EntryKey& key, const EntryId& version) override {
    fills_.drop(name_of(key, version));
  }

  void set_quota(SizeOrPercent quota) override { shared_.drive.set_quota(quota); }

  std::shared_ptr<Keeper> keeper() override {
    const std::shared_ptr<Drive> drive = shared_.drive.get();
    if (drive == nullptr) return nullptr;
    return {drive, drive->keeper.get()};
  }

  TierStats stats() const override {
    const std::shared_ptr<Drive> drive = shared_.drive.get();
    return {.on = on(),
            .fills = fills_.fills(),
            .fill_bytes = fills_.fill_bytes(),
            .fills_skipped = fills_.skipped(),
            .verification_failures = shared_.verification_failures.load(std::memory_order_relaxed),
            .keeper = drive == nullptr ? KeeperStatus() : drive->keeper->status()};
  }

  void drain() override { fills_.drain(); }

 private:
  TierShared shared_;
  TierReads reads_{shared_};
  TierFills fills_{shared_};
};

}  // namespace

std::shared_ptr<Tier> Tier::open(io::FileSystem& fs, TierOptions options,
                                 std::shared_ptr<io::BufferProvider> buffers) {
  return std::make_shared<LocalTier>(fs, std::move(options), std::move(buffers));
}

}  // namespace penstock::cache
