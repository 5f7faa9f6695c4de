#include "mount/wakefulness.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace penstock::mount {

namespace {

constexpr uint64_t kManyRequests = 2;  // In a millisecond.
constexpr int kBusyLooks = 3;          // A burst: it will go on for a while.
constexpr int kQuietLooks = 20;        // It is over.

// The guests of some hosts (haltpoll) know only sleep and no sleep. Elsewhere a light sleep, out of which
// a processor comes in two microseconds, saves most of the power.
int32_t bearable_latency_us() {
  std::ifstream file("/sys/devices/system/cpu/cpuidle/current_driver");
  std::string driver;
  file >> driver;
  return driver == "haltpoll" ? 0 : 2;
}

}  // namespace

Wakefulness::Wakefulness(std::string device)
    : device_(std::move(device)), latency_us_(bearable_latency_us()) {}

Wakefulness::~Wakefulness() {
  let_go();
}

void Wakefulness::look(uint64_t requests) {
  if (requests >= kManyRequests) {
    quiet_ = 0;
    if (++busy_ >= kBusyLooks && !held() && !refused_) hold();
    return;
  }
  busy_ = 0;
  if (held() && ++quiet_ >= kQuietLooks) let_go();
}

void Wakefulness::hold() {
  const int fd = ::open(device_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && ::write(fd, &latency_us_, sizeof latency_us_) == sizeof latency_us_) {
    fd_ = fd;
    return;
  }
  if (fd >= 0) ::close(fd);
  refused_ = true;  // It will be next time, too.
}

void Wakefulness::let_go() {
  if (held()) ::close(std::exchange(fd_, -1));
}

}  // namespace penstock::mount
