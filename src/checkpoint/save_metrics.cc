#include "checkpoint/save_metrics.h"

namespace penstock::checkpoint {

SaveMetrics& SaveMetrics::global() {
  Metrics& all = Metrics::global();
  static SaveMetrics metrics{
      all.counter("penstock_checkpoint_saves_total", "checkpoints that became durable"),
      all.counter("penstock_checkpoint_failures_total", "saves that failed"),
      all.counter("penstock_checkpoint_skipped_total", "saves skipped: an earlier one was written"),
      all.counter("penstock_checkpoint_bytes_total", "bytes of files of durable checkpoints"),
      all.counter("penstock_checkpoint_linked_bytes_total", "of those, linked and not written"),
      all.counter("penstock_checkpoint_rewritten_total", "files written anew after a failed sync"),
      all.histogram("penstock_checkpoint_stall_seconds", "time of save() calls"),
      all.histogram("penstock_checkpoint_durable_seconds", "from save() until durable"),
      all.histogram("penstock_checkpoint_replicated_seconds", "from save() until in all places"),
      all.gauge("penstock_checkpoint_saves_under_way", "saves that are not durable yet")};
  return metrics;
}

}  // namespace penstock::checkpoint
