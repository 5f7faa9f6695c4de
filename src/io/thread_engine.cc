#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"
#include "io/engine.h"

namespace penstock::io {

namespace {

class ThreadEngine;
thread_local const ThreadEngine* current_engine = nullptr;

// Blocking calls on a pool of threads: as many in flight as there are threads.
class ThreadEngine final : public Engine {
 public:
  ThreadEngine(uint32_t threads, uint32_t pending_limit) : pending_limit_(pending_limit) {
    try {
      for (uint32_t i = 0; i < threads; ++i) {
        threads_.emplace_back([this, i] {
          set_thread_name(fmt::format("ps-io-{}", i));
          run();
        });
      }
    } catch (...) {
      stop();  // Those that did start.
      throw;
    }
  }

  ~ThreadEngine() override { stop(); }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(RawOpList ops) override {
    std::unique_lock lock(mutex_);
    while (!ops.empty()) {
      if (current_engine != this)
        room_.wait(lock, [this] { return queue_.size() < pending_limit_; });
      queue_.push(ops.pop());
      work_.notify_one();
    }
  }

  void forget(FixedFiles&) override {}
  size_t rings() const override { return 0; }
  uint32_t add_region(std::span<std::byte>) override { return 0; }
  void remove_region(uint32_t) override {}
  EngineKind kind() const override { return EngineKind::kThreads; }
  std::string description() const override { return fmt::format("{} threads", threads_.size()); }

 private:
  void run() {
    current_engine = this;
    while (RawOp* op = take()) op->complete(*op, run_blocking(*op));
  }

  RawOp* take() {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return nullptr;
    RawOp* op = queue_.pop();
    room_.notify_one();
    return op;
  }

  const size_t pending_limit_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable room_;
  RawOpList queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

int run_blocking(const RawOp& op) {
  const iovec vector{op.data, op.size};
  const auto offset = static_cast<off_t>(op.offset);
  ssize_t result = 0;
  switch (op.kind) {
    case RawOp::Kind::kNop:
      break;
    case RawOp::Kind::kRead:
      result = ::preadv2(op.fd, &vector, 1, offset, op.rw_flags);
      break;
    case RawOp::Kind::kWrite:
      result = ::pwritev2(op.fd, &vector, 1, offset, op.rw_flags);
      break;
    case RawOp::Kind::kSync:
      result = ::fsync(op.fd);
      break;
    case RawOp::Kind::kDataSync:
      result = ::fdatasync(op.fd);
      break;
  }
  return result < 0 ? -errno : static_cast<int>(result);
}

std::unique_ptr<Engine> make_thread_engine(const LocalOptions& options) {
  constexpr uint32_t kThreadsDefault = 32;
  return std::make_unique<ThreadEngine>(options.threads == 0 ? kThreadsDefault : options.threads,
                                        options.pending_limit);
}

}  // namespace penstock::io
