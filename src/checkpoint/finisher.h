// The background of a Checkpointer: what was staged is written, gets its name, goes to second places,
// and lets old ones go.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/job.h"
#include "checkpoint/manifest.h"
#include "checkpoint/replicator.h"
#include "checkpoint/session.h"
#include "checkpoint/writer.h"
#include "penstock/checkpoint.h"
#include "penstock/io.h"

namespace penstock::checkpoint {

// Threads: all calls from any thread.
class Finisher {
 public:
  Finisher(io::FileSystem& fs, const CheckpointerOptions& options, std::vector<Copies> places);
  ~Finisher();

  // With several ranks, before the first job. It outlives this.
  void set_session(Session* session) { session_ = session; }
  // Begins at once, or after those added before.
  void add(const std::shared_ptr<Job>& job);
  // Finishes what was added.
  void stop();

 private:
  void finish(const std::shared_ptr<Job>& job);
  Result<void> write_and_commit(Job& job);
  void find_previous();
  void after_commit(Job& job);
  void tell_latest(uint64_t newest);
  void retire(uint64_t newest);

  io::FileSystem& fs_;
  const CheckpointerOptions options_;
  Session* session_ = nullptr;
  std::unique_ptr<Replicator> replicator_;  // Null without a second place.

  // Of the thread.
  Writer writer_;
  bool looked_for_previous_ = false;
  std::optional<Manifest> previous_;  // What an incremental save may link to, and where it is.
  std::string previous_path_;

  ThreadPool thread_{"ckpt-write", 1, kJobsMax};  // Last: uses the others.
};

}  // namespace penstock::checkpoint
