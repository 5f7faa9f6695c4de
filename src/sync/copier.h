#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "base/thread_pool.h"
#include "store/s3_store.h"
#include "sync/context.h"
#include "sync/copy_queue.h"

namespace penstock::sync {

// Copies objects, many at once. One thread starts them; the stores' asynchronous calls and pools of
// threads for what blocks carry them on.
// Threads: add() from any thread.
class Copier {
 public:
  explicit Copier(Context& context);
  ~Copier();

  // Waits while many are waiting already. False on stop.
  bool add(CopyItem item) { return queue_.push(std::move(item)); }
  // Between trees: gives a file with the right bytes the times and permission bits, too. Blocking.
  Result<void> keep_attributes(const CopyItem& item);
  // Waits until all that was added is at the target, or has failed. No add() after it.
  void finish();

 private:
  struct Small;
  struct Large;
  class Stream;

  void run();
  void start(CopyItem item);
  uint64_t whole_bytes() const;  // Up to this size an object is one read and one write.
  void announce(CopyItem& item);

  // Finding out whether to copy.
  void ask_kept_time(CopyItem item);
  void read_bytes(CopyItem item);
  void decided(CopyItem item, const Decision& decision);

  // What fits into two ranges: one get, one put.
  void start_small(CopyItem item);
  void on_small_read(const std::shared_ptr<Small>& job, Result<store::GetResult> got);
  void put_small(const std::shared_ptr<Small>& job);
  Result<std::unique_ptr<StagedFile>> stage_small(const Small& job);

  // The rest: ranges, each written to its place in a file,
  void ask_info(CopyItem item);
  void start_large(CopyItem item);
  void start_range(const std::shared_ptr<Large>& large, uint64_t offset);
  void write_range(const std::shared_ptr<Large>& large, uint64_t offset, const io::Buffer& buffer,
                   const Result<store::GetResult>& got);
  bool end_range(const std::shared_ptr<Large>& large, const Result<void>& outcome);
  void end_large(const std::shared_ptr<Large>& large);
  // or uploaded in their order.
  void start_stream(CopyItem item);
  Result<void> copy_stream(const CopyItem& item);

  void start_link(CopyItem item);
  void start_copy_within_s3(CopyItem item);
  void publish(CopyItem item, std::unique_ptr<StagedFile> file);

  // The end of an item, whose slot was given back, or of a try that came to nothing.
  void finished(const CopyItem& item, const Result<void>& outcome);
  void try_again_or_fail(CopyItem item, const Error& error);

  store::PutOptions put_options(const CopyItem& item, const store::ObjectInfo& info) const;
  std::optional<int64_t> file_time(const CopyItem& item, const store::ObjectInfo& info) const;
  std::optional<uint32_t> file_mode(const CopyItem& item, const store::ObjectInfo& info) const;

  Context& context_;
  CopyQueue queue_;
  std::unique_ptr<ThreadPool> writers_;   // Files of the target.
  std::unique_ptr<ThreadPool> checkers_;  // Bytes that are only compared.
  std::unique_ptr<ThreadPool> streams_;   // Uploads.
  std::optional<store::S3Pair> within_s3_;
  std::thread thread_;
};

}  // namespace penstock::sync
