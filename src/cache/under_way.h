#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "penstock/units.h"

namespace penstock::cache {

// What a tier has begun and not ended, and the watchdog that answers in the place of a drive that
// does not.
//
// Time is counted in ticks of the watchdog, not by a clock: a process that was stopped for a minute,
// or starved, finds one tick gone, and does not blame the drive.
// Threads: all calls from any thread.
class UnderWay {
 public:
  class Item {
   public:
    virtual ~Item() = default;
    // True for exactly one caller: the one that answers.
    bool claim() { return !answered_.exchange(true, std::memory_order_acq_rel); }
    bool answered() const { return answered_.load(std::memory_order_acquire); }

   private:
    friend class UnderWay;
    // The watchdog has claimed it: what to call to answer that it took too long. The item itself
    // may be gone by the time it is called.
    virtual std::function<void()> give_up() = 0;

    Item* previous_ = nullptr;
    Item* next_ = nullptr;
    bool started_ = false;
    uint64_t start_tick_ = 0;
    std::atomic<bool> answered_ = false;
  };

  struct Hooks {
    std::function<bool()> is_on;    // Must not block.
    std::function<void()> on_slow;  // Something took longer than slow_after; before it is answered.
  };
  // Answers what takes longer than slow_after, by at most an eighth.
  UnderWay(Nanoseconds slow_after, Hooks hooks);
  ~UnderWay();  // Stops the watchdog. Requires close().
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  // False when closed. Its time begins now, or with start(): one that waits for its turn is only
  // answered when the tier is off.
  bool enter(Item& item, bool waits = false);
  void start(Item& item);
  // The item's end, whoever answered. Nothing of this object may be touched on its behalf later.
  void leave(Item& item);

  // Refuses newcomers and waits until all left and were answered. The watchdog goes on meanwhile.
  void close();

 private:
  void run();
  void tick();

  const Nanoseconds period_;
  const Hooks hooks_;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::condition_variable stop_;
  Item* first_ = nullptr;
  uint64_t now_ = 0;  // In ticks.
  bool answering_ = false;
  bool closed_ = false;
  bool stopping_ = false;
  std::thread watchdog_;
};

}  // namespace penstock::cache
