#include "base/thread_pool.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

#include "base/log.h"

namespace penstock {

namespace {

// Cores granted by the cgroup v2 quota ("max 100000" or "150000 100000"), rounded up; 0 when there
// is none.
size_t cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0) return 0;
  return static_cast<size_t>(std::ceil(quota / period));
}

}  // namespace

void set_thread_name(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

size_t available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  size_t cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    cores = static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
  const size_t granted = cgroup_cores();
  return granted > 0 ? std::min(cores, granted) : cores;
}

ThreadPool::ThreadPool(std::string name, size_t threads, size_t queue_capacity)
    : queue_(queue_capacity) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    if (!start(fmt::format("{}-{}", name, i))) break;
  }
}

bool ThreadPool::start(const std::string& label) {
  try {
    threads_.emplace_back([this, label] {
      set_thread_name(label);
      run();
    });
    return true;
  } catch (const std::system_error& error) {
    if (threads_.empty()) throw;
    log_warn("fewer threads than wanted could be started: see ulimit -u and the cgroup's pids.max",
             {{"threads", threads_.size()}, {"refused", label}, {"why", error.what()}});
    return false;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

bool ThreadPool::submit(Task task) {
  return queue_.push(std::move(task));
}

bool ThreadPool::try_submit(Task& task) {
  return queue_.try_push(task);
}

void ThreadPool::stop() {
  queue_.close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ThreadPool::run() noexcept {
  while (std::optional<Task> task = queue_.pop()) (*task)();
}

}  // namespace penstock
