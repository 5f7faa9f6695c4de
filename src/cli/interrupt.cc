#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/thread_pool.h"
#include "cli/commands.h"
#include "penstock/units.h"

namespace penstock::cli {

namespace {

std::stop_source& stop_source() {
  static auto* source =
      new std::stop_source;  // Never destroyed: the signal thread may still use it at exit.
  return *source;
}

}  // namespace

std::stop_token stop_on_interrupt() {
  // A closed pipe or a file over its limit is an error of that write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  // Blocked here and so in every thread started later: only the thread below receives them, with
  // sigwait, where any function may be called.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    set_thread_name("signals");
    int signal = 0;
    sigwait(&signals, &signal);
    stop_source().request_stop();
    // Those who send a signal often send it twice at once (timeout does, to the process and to its
    // group): only one that comes later means impatience.
    const auto patience = deadline_in(std::chrono::seconds(2));
    do {
      sigwait(&signals, &signal);
    } while (std::chrono::steady_clock::now() < patience);
    _exit(kExitInterrupted);
  }).detach();
  return stop_source().get_token();
}

}  // namespace penstock::cli
