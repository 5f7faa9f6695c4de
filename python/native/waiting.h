// Waits that Ctrl-C ends: without the GIL, and with a look at signals every now and then.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <memory>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::python {

inline constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(100);

// What may wait, without the GIL.
template <typename Work>
auto unlocked(const Work& work) {
  const nanobind::gil_scoped_release released;
  return work();
}

// As Python has it. Its end may wait, for a volume that has content to store yet: without the GIL too.
template <typename T>
std::shared_ptr<T> held(std::unique_ptr<T> what) {
  return std::shared_ptr<T>(what.release(), [](T* last) {
    if (!PyGILState_Check()) return delete last;
    unlocked([last] { delete last; });
  });
}

// Calls `wait(deadline)` until it answers something else than kTimeout.
template <typename T, typename Wait>
Result<T> wait_for_signals(const Wait& wait) {
  while (true) {
    Result<T> answer = unlocked([&] { return wait(deadline_in(kLookEvery)); });
    if (answer.ok() || answer.error().code != ErrorCode::kTimeout) return answer;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

// Runs `work` on a thread of its own. `look` is called every now and then, with the GIL; when it
// throws, `stop` is, and the work waited for.
void run_aside(const std::function<void()>& work, const std::function<void()>& look,
               const std::function<void()>& stop);

}  // namespace penstock::python
