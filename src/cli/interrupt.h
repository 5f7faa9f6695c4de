#pragma once

#include <stop_token>

namespace penstock::cli {

// From now on Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGQUIT request a stop on the token returned, so
// that a command can end its work and clean up; one that comes two seconds later or more ends the
// process at once. Writing to a closed pipe becomes an error. Call once, before any other thread is
// started.
std::stop_token stop_on_interrupt();

}  // namespace penstock::cli
