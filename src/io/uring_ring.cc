#include "io/uring_ring.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"

namespace penstock::io {

namespace {

thread_local Ring* current_ring = nullptr;

// Registering costs a system call; a file is worth one after this many operations.
constexpr uint32_t kUsesBeforeFixedFile = 64;
constexpr uint32_t kFixedFileSlots = 256;

// What completions ask for is given to the device while others are still worked off: after so many
// requests, since the kernel starts the device only behind the last of those that it gets together, and
// after so long, since who checksums what it read takes tens of microseconds each.
constexpr size_t kSubmitTogether = 4;
constexpr auto kSubmitAfter = std::chrono::microseconds(20);

// The completion with this tag is the wake-up, not an operation.
constexpr uint64_t kWakeTag = 0;

}  // namespace

uint32_t RegionTable::add(std::span<std::byte> memory) {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kRegions; ++i) {
    if (entries_[i].memory.iov_base != nullptr) continue;
    entries_[i] = {{memory.data(), memory.size()}, ++generation_};
    return i + 1;
  }
  return 0;
}

uint64_t RegionTable::remove(uint32_t region) {
  std::lock_guard lock(mutex_);
  return std::exchange(entries_[region - 1], {}).generation;
}

RegionTable::Entry RegionTable::get(uint32_t region) const {
  std::lock_guard lock(mutex_);
  return entries_[region - 1];
}

Ring::Ring(size_t index, const LocalOptions& options, RegionTable& regions)
    : index_(index),
      depth_(options.queue_depth),
      pending_limit_(options.pending_limit),
      regions_(regions) {}

Ring::~Ring() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
  // Not by the thread: it could end, and the number be reused, before wake() writes.
  ::close(wake_fd_);
}

Ring* Ring::current() {
  return current_ring;
}

Result<void> Ring::start() {
  std::promise<Result<void>> started;
  std::future<Result<void>> answer = started.get_future();
  thread_ = std::thread([this, &started] { run(started); });
  Result<void> outcome = answer.get();
  if (!outcome.ok()) thread_.join();
  return outcome;
}

void Ring::run(std::promise<Result<void>>& started) {
  set_thread_name(fmt::format("ps-ring-{}", index_));
  Result<void> ready = set_up();
  const bool usable = ready.ok();
  started.set_value(std::move(ready));
  if (!usable) return;
  current_ring = this;
  loop();
  io_uring_queue_exit(&ring_);
}

Result<void> Ring::set_up() {
  // One extra entry for the wake-up read.
  const uint32_t entries = depth_ + 1;
  io_uring_params params{};
  // Completions are worked off by this thread when it asks for them, and no lock is needed in the
  // kernel (Linux 6.1).
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  int result = io_uring_queue_init_params(entries, &ring_, &params);
  if (result == -EINVAL) result = io_uring_queue_init(entries, &ring_, 0);
  if (result < 0) {
    Error error = errno_error(-result, "io_uring_setup");
    error.code = ErrorCode::kUnsupported;
    return error;
  }
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (wake_fd_ < 0) {
    const int reason = errno;
    io_uring_queue_exit(&ring_);
    return errno_error(reason, "eventfd");
  }
  fixed_buffers_ = io_uring_register_buffers_sparse(&ring_, RegionTable::kRegions) == 0;
  registered_generation_.assign(RegionTable::kRegions + 1, 0);
  if (io_uring_register_files_sparse(&ring_, kFixedFileSlots) == 0) {
    for (int32_t slot = kFixedFileSlots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  }
  return {};
}

void Ring::loop() {
  while (refill()) {
    arm_wake();
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // EINTR and EAGAIN/EBUSY (completions to be worked off first) mean: reap and come again.
    // Anything else would be a bug in how the ring is used, and there is no one to return it to.
    if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) {
      log_error("io_uring_enter failed", {{"errno", -result}});
    }
    reap();
  }
}

void Ring::prepare_local() {
  while (!local_.empty() && in_flight_ < depth_) prepare(*local_.pop());
}

bool Ring::refill() {
  prepare_local();
  std::vector<std::packaged_task<void()>> actions;
  bool stopped = false;
  {
    std::lock_guard lock(mutex_);
    actions.swap(actions_);
    bool took = false;
    while (!inbox_.empty() && in_flight_ < depth_) {
      prepare(*inbox_.pop());
      took = true;
    }
    if (took) room_.notify_all();
    // With the ring full, completions bring us back here; no wake-up is needed to see the inbox
    // again.
    awake_ = !inbox_.empty() || !actions.empty();
    stopped = stopping_ && inbox_.empty() && local_.empty() && actions.empty() && in_flight_ == 0;
  }
  if (actions.empty()) return !stopped;
  for (auto& action : actions) action();
  return refill();
}

void Ring::arm_wake() {
  if (wake_armed_) return;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  io_uring_prep_read(sqe, wake_fd_, &wake_value_, sizeof(wake_value_), 0);
  io_uring_sqe_set_data64(sqe, kWakeTag);
  wake_armed_ = true;
}

void Ring::wake() {
  const uint64_t one = 1;
  // Fails only when the counter would overflow, which still wakes the reader.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void Ring::submit(RawOpList& ops) {
  std::unique_lock lock(mutex_);
  while (!ops.empty()) {
    room_.wait(lock, [this] { return inbox_.size() < pending_limit_; });
    while (!ops.empty() && inbox_.size() < pending_limit_) inbox_.push(ops.pop());
    if (awake_) continue;
    awake_ = true;
    wake();
  }
}

std::future<void> Ring::post(std::function<void()> action) {
  std::packaged_task<void()> task(std::move(action));
  std::future<void> finished = task.get_future();
  std::lock_guard lock(mutex_);
  actions_.push_back(std::move(task));
  // Always: with the ring full nobody would look at the actions before the next completion.
  awake_ = true;
  wake();
  return finished;
}

void Ring::submit_here(RawOpList& ops) {
  while (!ops.empty()) local_.push(ops.pop());
}

void Ring::prepare(RawOp& op) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  switch (op.kind) {
    case RawOp::Kind::kNop:
      io_uring_prep_nop(sqe);
      break;
    case RawOp::Kind::kRead:
    case RawOp::Kind::kWrite:
      prepare_transfer(sqe, op);
      break;
    case RawOp::Kind::kSync:
      io_uring_prep_fsync(sqe, op.fd, 0);
      break;
    case RawOp::Kind::kDataSync:
      io_uring_prep_fsync(sqe, op.fd, IORING_FSYNC_DATASYNC);
      break;
  }
  if (op.fixed != nullptr) use_fixed_file(sqe, op);
  io_uring_sqe_set_data(sqe, &op);
  ++in_flight_;
}

void Ring::prepare_transfer(io_uring_sqe* sqe, RawOp& op) {
  const bool read = op.kind == RawOp::Kind::kRead;
  if (op.region != 0 && region_ready(op.region)) {
    const int index = static_cast<int>(op.region) - 1;
    if (read) {
      io_uring_prep_read_fixed(sqe, op.fd, op.data, op.size, op.offset, index);
    } else {
      io_uring_prep_write_fixed(sqe, op.fd, op.data, op.size, op.offset, index);
    }
  } else if (read) {
    io_uring_prep_read(sqe, op.fd, op.data, op.size, op.offset);
  } else {
    io_uring_prep_write(sqe, op.fd, op.data, op.size, op.offset);
  }
  sqe->rw_flags = op.rw_flags;
}

bool Ring::region_ready(uint32_t region) {
  if (!fixed_buffers_ || region > RegionTable::kRegions) return false;
  const RegionTable::Entry entry = regions_.get(region);
  uint64_t& registered = registered_generation_[region];
  if (registered == entry.generation) return registered != 0;
  const int result =
      io_uring_register_buffers_update_tag(&ring_, region - 1, &entry.memory, nullptr, 1);
  if (result == 1) {
    registered = entry.generation;
    return true;
  }
  log_once(LogLevel::kWarn, "io.register_buffers",
           "memory could not be registered with io_uring; transfers work, a little slower (raise "
           "`ulimit -l`)",
           {{"errno", -result}, {"bytes", entry.memory.iov_len}});
  return false;
}

void Ring::drop_region_here(uint32_t region, uint64_t generation) {
  if (registered_generation_[region] != generation) return;
  const iovec nothing{};
  io_uring_register_buffers_update_tag(&ring_, region - 1, &nothing, nullptr, 1);
  registered_generation_[region] = 0;
}

void Ring::use_fixed_file(io_uring_sqe* sqe, RawOp& op) {
  FixedFile& file = (*op.fixed)[index_];
  if (file.slot < 0) {
    if (++file.uses < kUsesBeforeFixedFile || free_slots_.empty()) return;
    const int32_t slot = free_slots_.back();
    if (io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &op.fd, 1) != 1) return;
    free_slots_.pop_back();
    file.slot = slot;
  }
  sqe->fd = file.slot;
  sqe->flags |= IOSQE_FIXED_FILE;
}

void Ring::forget_here(FixedFile& file) {
  if (file.slot < 0) return;
  const int none = -1;
  io_uring_register_files_update(&ring_, static_cast<unsigned>(file.slot), &none, 1);
  free_slots_.push_back(file.slot);
  file.slot = -1;
}

void Ring::reap() {
  // Completions may submit, which only appends to local_.
  auto submitted = std::chrono::steady_clock::now();
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    ++count;
    if (cqe->user_data == kWakeTag) {
      wake_armed_ = false;
      continue;
    }
    auto* op = reinterpret_cast<RawOp*>(cqe->user_data);
    --in_flight_;
    op->complete(*op, cqe->res);
    if (local_.empty()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (local_.size() < kSubmitTogether && now - submitted < kSubmitAfter) continue;
    submitted = now;
    prepare_local();
    io_uring_submit(&ring_);  // What it does not take, loop() submits and reports.
  }
  io_uring_cq_advance(&ring_, count);
}

}  // namespace penstock::io
