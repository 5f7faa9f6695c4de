#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace penstock {

// How every service stops: refuse, drain, destroy. Work enters through the gate and holds its pass
// while it runs; close() refuses newcomers and returns once the last pass is gone, after which the
// service may be destroyed.
//
//   Gate::Pass pass = gate_.enter();
//   if (!pass) return make_error(ErrorCode::kClosed, "...");
//
// Threads: all calls from any thread. A thread that holds a pass must not call close(): it would
// wait for itself.
class Gate {
 public:
  class [[nodiscard]] Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // A pass, or an empty one when the gate is closed.
  Pass enter() {
    std::lock_guard lock(mutex_);
    if (closed_) return Pass();
    ++inside_;
    return Pass(this);
  }

  // Refuses newcomers and waits for those inside. May be called again, and from several threads.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  // Notifies under the lock: the closer may destroy the gate as soon as it can take the lock.
  void leave() {
    std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable empty_;
  uint64_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace penstock
