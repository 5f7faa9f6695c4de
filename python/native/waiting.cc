#include "native/waiting.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace penstock::python {

void run_aside(const std::function<void()>& work, const std::function<void()>& look,
               const std::function<void()>& stop) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread thread([&] {
    work();
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  const auto join = [&] {
    const nanobind::gil_scoped_release unlocked;
    thread.join();
  };
  try {
    while (true) {
      {
        const nanobind::gil_scoped_release unlocked;
        std::unique_lock lock(mutex);
        if (changed.wait_for(lock, kLookEvery, [&] { return done; })) break;
      }
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      look();
    }
  } catch (...) {
    stop();
    join();
    throw;
  }
  join();
}

}  // namespace penstock::python
