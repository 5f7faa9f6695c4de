#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/thread_pool.h"
#include "cli/commands.h"

namespace penstock::cli {

namespace {

std::stop_source& stop_source() {
  static auto* source =
      new std::stop_source;  // Never destroyed: the signal thread may still use it at exit.
  return *source;
}

}  // namespace

std::stop_token stop_on_interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // Blocked here and so in every thread started later: only the thread below receives them, with
  // sigwait, where any function may be called.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    set_thread_name("signals");
    int signal = 0;
    sigwait(&signals, &signal);
    stop_source().request_stop();
    sigwait(&signals, &signal);
    _exit(kExitInterrupted);
  }).detach();
  return stop_source().get_token();
}

}  // namespace penstock::cli
