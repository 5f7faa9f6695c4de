#pragma once

#include <optional>
#include <string>

#include "penstock/result.h"

namespace penstock::cli {

// A process that goes on in the background, and whose start is waited for.
//
//   Daemon daemon;
//   if (const auto code = PENSTOCK_TRY(daemon.leave())) return *code;   // whoever called: it is up, or said why not
//   ...                                                   // the new process; may still write to the terminal
//   daemon.ready();                                       // from here on it has none
//
// Before any thread is started.
class Daemon {
 public:
  ~Daemon();
  // In the process that called: the exit code, once the other one is ready or has ended. In the new
  // one: nothing.
  Result<std::optional<int>> leave();
  void ready();

 private:
  int pipe_ = -1;
};

// All lines of the log go to the end of this file.
Result<void> log_to_file(const std::string& path);

}  // namespace penstock::cli
