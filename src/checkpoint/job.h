// A save under way: what the caller holds, the writer works on and both wait for.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "checkpoint/attempt.h"
#include "checkpoint/milestone.h"
#include "checkpoint/plan.h"
#include "checkpoint/staged.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

// Threads: Save's calls from any; `plan`, `manifest` and `attempt` belong to who saves until the job
// is handed to the writer, and to the writer from then on, but that pieces are still copied by `plan`.
class Job : public Save {
 public:
  // `keep`: its pieces stay until all is written.
  Job(uint64_t step, Plan made, bool keep)
      : plan(std::move(made)), pieces(plan.pieces.size(), keep) {
    report_.step = step;
    report_.bytes = plan.bytes;
    report_.tensors = plan.tensors;
    report_.files = plan.files.size();
  }

  Result<void> durable(Deadline deadline) override;
  Result<void> replicated(Deadline deadline) override;
  bool done() const override { return durable_.ended() && replicated_.ended(); }
  SaveReport report() const override;
  std::string part() const override;

  // Each once. What is not durable is not replicated either.
  void finish_durable(const Result<void>& result);
  void finish_replicated(const Result<void>& result);
  bool is_durable() const { return durable_.ended(); }  // Or never will be.
  // Durable or failed, and what had to be tidied up after it is.
  void finish_settled() { settled_.finish({}); }
  bool wait_settled(Deadline deadline) { return settled_.wait_end(deadline); }
  // The error that nobody has seen, and now has been.
  std::optional<Error> take_unseen();
  bool has_unseen() const { return durable_.has_unseen() || replicated_.has_unseen(); }
  template <typename Change>
  void change_report(const Change& change) {
    std::lock_guard lock(mutex_);
    change(report_);
  }

  void set_part(std::string text);

  Plan plan;
  StagedPieces pieces;
  std::atomic<bool> staged = false;  // All of it is copied: the cores are the writer's.
  std::atomic<uint64_t> written_bytes = 0;
  Manifest manifest;
  Place place;
  std::unique_ptr<Attempt> attempt;
  SaveOptions options;  // Its name is set.
  std::string topic;    // Under which ranks speak of it.
  std::chrono::steady_clock::time_point begun;

 private:
  mutable std::mutex mutex_;
  SaveReport report_;
  std::string part_;
  Milestone durable_;
  Milestone settled_;
  Milestone replicated_;
};

}  // namespace penstock::checkpoint
