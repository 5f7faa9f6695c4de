#include "loader/stats.h"

namespace penstock::loader {

void Stats::list(Skipped skipped_one) {
  skipped.add();
  const std::lock_guard lock(mutex_);
  if (listed_.size() < kListed) listed_.push_back(std::move(skipped_one));
}

std::vector<Skipped> Stats::listed() const {
  const std::lock_guard lock(mutex_);
  return listed_;
}

Report Stats::report() const {
  Report report;
  report.batches = batches.value();
  report.samples = samples.value();
  report.bytes_read = bytes_read.value();
  report.reads = reads.value();
  report.skipped = skipped.value();
  report.skipped_list = listed();
  report.elapsed = Clock::now() - since;
  report.first_batch = Nanoseconds(static_cast<int64_t>(first_batch_ns.load()));
  report.read_busy = read_busy.total();
  report.decode_busy = decode_busy.total();
  report.worker_wait = worker_wait.total();
  report.storage_busy = storage.total();
  report.plan_busy = plan_busy.total();
  report.memory_wait = memory_wait.total();
  report.ahead_wait = ahead_wait.total();
  report.next_total = next.sum();
  report.next_p50 = next.percentile(0.5);
  report.next_p99 = next.percentile(0.99);
  report.next_max = next.max();
  report.away_total = away.total();
  const uint64_t calls = next_calls.value();
  if (calls > 0)
    report.ready_mean = static_cast<double>(ready_sum.value()) / static_cast<double>(calls);
  return report;
}

}  // namespace penstock::loader
