// Which requests are being answered at this moment, since when, and what their threads wait for: so
// that one which hangs can be told of while it does.
//
// Each thread that answers has a place of its own to note it in, which the others only read: noting
// costs a few nanoseconds and no lock.
// Threads: all calls from any thread. A thread answers one request at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/waiting.h"
#include "penstock/meta.h"

namespace penstock::mount {

struct RequestFacts {
  using Clock = std::chrono::steady_clock;

  uint64_t number = 0;  // The kernel's; 0: none.
  uint32_t opcode = 0;
  meta::Ino ino = 0;
  uint64_t offset = 0;  // Of a part of a file, where it is about one.
  uint64_t length = 0;
  Clock::time_point begun{};
};

class RequestsUnderWay {
 public:
  RequestsUnderWay();

  // This thread answers it from now on.
  void begin(const RequestFacts& request);
  // The request with that number, if it is the one that this thread answers.
  const RequestFacts* mine(uint64_t number) const;
  // This thread is done with whatever it answered.
  void end();
  // Another thread will answer it, and calls begin() with this. No number where there is none.
  RequestFacts hand_over();

  struct Seen {
    RequestFacts request;
    const char* waits_for = nullptr;  // Null: not known.
  };
  std::vector<Seen> all() const;

 private:
  struct Place;
  struct Mine;

  Mine& own_place();
  static Mine& of_thread();

  const uint64_t id_;  // Of this, and no other that was or will be at the same address.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Place>> places_;  // Those that only we have are free.
};

}  // namespace penstock::mount
