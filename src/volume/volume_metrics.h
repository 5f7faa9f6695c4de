// What volumes count, in Metrics::global(): looked up once, so that counting is a few nanoseconds.
#pragma once

#include <string>

#include "base/metrics.h"

namespace penstock::volume {

// What all volumes of the process count together.
struct VolumeMetrics {
  // Frames in memory.
  Counter& frame_hits;
  Counter& frame_misses;
  Counter& frame_evictions;
  Counter& ahead_frames;  // Loaded before anybody asked.
  Counter& ahead_used;    // Of those, asked for while they were still there.
  // The store.
  Histogram& load_seconds;
  Counter& load_bytes;
  Counter& load_failures;
  Counter& verification_failures;
  Histogram& upload_seconds;
  Counter& upload_bytes;
  Counter& upload_failures;
  // The journal and the database.
  Counter& journal_bytes;
  Histogram& journal_sync_seconds;
  Histogram& room_wait_seconds;
  Histogram& commit_seconds;
  // What is done in the background, and for others.
  Counter& merged_pieces;
  Counter& merged_bytes;
  Counter& gc_objects;
  Counter& gc_bytes;
  Counter& connections;
  Gauge& connections_now;

  static VolumeMetrics& global();
};

// What is so at this moment, of the volumes in one directory.
struct HostGauges {
  explicit HostGauges(const std::string& directory);

  Gauge& journal_bytes;
  Gauge& journal_limit_bytes;
  Gauge& pending_bytes;
  Gauge& pending_age_seconds;
  Gauge& frame_bytes;
  Gauge& failed;
  Gauge& store_reads_fail;
  Gauge& store_writes_fail;

  // Whoever has it from now on counts for itself.
  void clear();
};

}  // namespace penstock::volume
