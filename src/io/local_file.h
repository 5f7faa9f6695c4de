#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/gate.h"
#include "base/metrics.h"
#include "io/bounce_pool.h"
#include "io/engine.h"
#include "io/transfer.h"
#include "penstock/io.h"

namespace penstock::io {

// What the files of one local file system share.
struct LocalShared {
  std::unique_ptr<BouncePool> bounces = std::make_unique<BouncePool>();
  std::unique_ptr<Engine>
      engine;  // Destroyed first: its last completions give bounce buffers back.
  Counter& read_bytes;
  Counter& written_bytes;
  Counter& syncs;
};

class LocalFile final : public File {
 public:
  // Takes ownership of target.fd.
  LocalFile(LocalShared& shared, std::string path, TransferTarget target, CacheMode mode);
  ~LocalFile() override;

  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override;
  Result<void> write(uint64_t offset, std::span<const std::byte> from) override;
  using File::submit;
  void submit(std::span<IoRequest> requests) override;
  Result<void> sync() override;
  Result<void> data_sync() override;
  Result<void> allocate(uint64_t offset, uint64_t length) override;
  Result<void> truncate(uint64_t size) override;
  Result<void> advise(Advice advice, uint64_t offset, uint64_t length) override;
  Result<void> set_attributes(std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns) override;
  Result<FileInfo> stat() override;
  Result<std::unique_ptr<FileMap>> map() override;
  CacheMode mode() const override { return mode_; }
  Alignment alignment() const override { return target_.alignment; }
  Result<void> close() override;

 private:
  struct Transfer;
  Result<Gate::Pass> enter(const char* action);
  Result<TransferTarget> target_for(RawOp::Kind kind, uint64_t offset, size_t size);
  Result<MemorySlice> within_range(RawOp::Kind kind, uint64_t offset, MemorySlice memory) const;
  Result<TransferPlan> plan_transfer(RawOp::Kind kind, uint64_t offset, MemorySlice wanted);
  Result<size_t> run(RawOp::Kind kind, uint64_t offset, MemorySlice memory);
  Result<void> call(const char* action, int result);
  Error transfer_error(RawOp::Kind kind, uint64_t offset, size_t size, int os_errno) const;
  void count(RawOp::Kind kind, size_t bytes);
  Transfer* make_transfer(IoRequest& request);
  void begin(Transfer& transfer, RawOpList& ready);
  static void on_complete(RawOp& op, int result);
  static void deliver(Transfer& transfer);

  LocalShared& shared_;
  const std::string path_;
  TransferTarget target_;
  const CacheMode mode_;
  FixedFiles fixed_;
  Gate gate_;
  std::mutex close_mutex_;
  bool closed_ = false;
  std::mutex buffered_mutex_;
  std::atomic<int> buffered_fd_{-1};
};

// The kernel's name for it.
int posix_advice(Advice advice);

// Turns an fstat/statx answer into ours.
Result<FileInfo> stat_path(int directory_fd, const char* path, int flags, const std::string& shown);

}  // namespace penstock::io
