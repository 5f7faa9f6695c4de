// Keeps processors awake while requests come thick and fast.
//
// Between a question and its answer one side always waits, and a processor without work goes to sleep at
// once. To wake it often takes longer than the answer itself, on virtual machines too. The
// kernel can be told that nobody here can wait for that (PM QoS, /dev/cpu_dma_latency), for as long as the
// file is open: whatever becomes of this process, nothing of it stays. Only root may; others go without.
//
// It is asked for only during bursts, since processors that do not sleep take power, and other guests of a
// host their time.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::mount {

inline constexpr const char* kLatencyDevice = "/dev/cpu_dma_latency";

class Wakefulness {
 public:
  explicit Wakefulness(std::string device);  // Without one it never asks.
  ~Wakefulness();
  Wakefulness(const Wakefulness&) = delete;
  Wakefulness& operator=(const Wakefulness&) = delete;

  // To be called about every millisecond, with how many requests came since.
  void look(uint64_t requests);
  bool held() const { return fd_ >= 0; }

 private:
  void hold();
  void let_go();

  const std::string device_;
  const int32_t latency_us_;
  int fd_ = -1;
  int busy_ = 0;   // Looks in a row with many requests.
  int quiet_ = 0;  // And with few, since.
  bool refused_ = false;
};

}  // namespace penstock::mount
