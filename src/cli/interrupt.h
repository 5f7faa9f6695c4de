#pragma once

#include <stop_token>

namespace penstock::cli {

// From now on Ctrl-C (SIGINT) and SIGTERM request a stop on the token returned, so that a command
// can end its work and clean up; a second one ends the process at once. Call once, before any other
// thread is started.
std::stop_token stop_on_interrupt();

}  // namespace penstock::cli
