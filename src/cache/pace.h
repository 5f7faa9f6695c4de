// How often a keeper does what, in ticks: they follow when tests let it tick faster.
#pragma once

#include "penstock/units.h"

namespace penstock::cache {

struct Pace {
  Nanoseconds tick = std::chrono::milliseconds(100);

  Nanoseconds election() const { return 5 * tick; }     // While another evicts.
  Nanoseconds liveness() const { return 5 * tick; }     // Is a member still there?
  Nanoseconds patience() const { return 10 * tick; }    // For bytes that are no record yet.
  Nanoseconds space() const { return 10 * tick; }       // How full is the drive?
  Nanoseconds own_locks() const { return 10 * tick; }   // Do others still see them?
  Nanoseconds turn() const { return 5 * tick; }         // Of members, where there is little room.
  Nanoseconds scan_pause() const { return 10 * tick; }  // Between two scans, at least.
};

}  // namespace penstock::cache
