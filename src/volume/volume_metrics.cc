#include "volume/volume_metrics.h"

namespace penstock::volume {

VolumeMetrics& VolumeMetrics::global() {
  Metrics& all = Metrics::global();
  static VolumeMetrics metrics{
      all.counter("penstock_volume_frame_hits_total", "frames wanted that were in memory"),
      all.counter("penstock_volume_frame_misses_total", "frames that readers had to load"),
      all.counter("penstock_volume_frame_evictions_total", "frames given up for others"),
      all.counter("penstock_volume_read_ahead_frames_total", "frames loaded before they were read"),
      all.counter("penstock_volume_read_ahead_used_total", "of those, read while still there"),
      all.histogram("penstock_volume_load_seconds", "time of reads from the store"),
      all.counter("penstock_volume_load_bytes_total", "bytes read from the store"),
      all.counter("penstock_volume_load_failures_total", "reads from the store that failed"),
      all.counter("penstock_volume_verification_failures_total", "pieces found to be damaged"),
      all.histogram("penstock_volume_upload_seconds", "time until an object was stored"),
      all.counter("penstock_volume_upload_bytes_total", "bytes of objects stored"),
      all.counter("penstock_volume_upload_failures_total", "objects that could not be stored"),
      all.counter("penstock_volume_journal_bytes_total", "bytes appended to the journal"),
      all.histogram("penstock_volume_journal_sync_seconds", "time of syncs of the journal"),
      all.histogram("penstock_volume_room_wait_seconds", "time that writers waited for room"),
      all.histogram("penstock_volume_commit_seconds", "time of commits of the database"),
      all.counter("penstock_volume_merged_pieces_total", "small pieces of files brought together"),
      all.counter("penstock_volume_merged_bytes_total", "bytes of those"),
      all.counter("penstock_volume_gc_objects_total", "objects deleted by garbage collection"),
      all.counter("penstock_volume_gc_bytes_total", "bytes of those"),
      all.counter("penstock_volume_connections_total", "connections to the control socket"),
      all.gauge("penstock_volume_connections", "of those, open now")};
  return metrics;
}

namespace {

Labels labels_of(const std::string& directory) {
  return {{"directory", directory}};
}

Gauge& failing_gauge(const std::string& directory, const char* direction) {
  return Metrics::global().gauge("penstock_volume_store_failing",
                                 "1 while the store cannot be read, or written to",
                                 {{"directory", directory}, {"direction", direction}});
}

}  // namespace

HostGauges::HostGauges(const std::string& directory)
    : journal_bytes(Metrics::global().gauge("penstock_volume_journal_used_bytes",
                                            "bytes of the journal in use", labels_of(directory))),
      journal_limit_bytes(Metrics::global().gauge("penstock_volume_journal_limit_bytes",
                                                  "then writers wait", labels_of(directory))),
      pending_bytes(Metrics::global().gauge("penstock_volume_pending_bytes",
                                            "content in the journal that is not stored yet",
                                            labels_of(directory))),
      pending_age_seconds(Metrics::global().gauge("penstock_volume_pending_age_seconds",
                                                  "how long the oldest of it waits",
                                                  labels_of(directory))),
      frame_bytes(Metrics::global().gauge("penstock_volume_frame_bytes",
                                          "memory held for content that was read",
                                          labels_of(directory))),
      failed(Metrics::global().gauge("penstock_volume_failed",
                                     "1 when the journal or the database failed",
                                     labels_of(directory))),
      store_reads_fail(failing_gauge(directory, "read")),
      store_writes_fail(failing_gauge(directory, "written")) {}

void HostGauges::clear() {
  for (Gauge* gauge : {&journal_bytes, &journal_limit_bytes, &pending_bytes, &pending_age_seconds,
                       &frame_bytes, &failed, &store_reads_fail, &store_writes_fail}) {
    gauge->set(0);
  }
}

}  // namespace penstock::volume
