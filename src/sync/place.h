#pragma once

#include "penstock/sync.h"

namespace penstock::sync {

// kInvalid when a run from one to the other would read what it writes.
Result<void> check_apart(const Place& from, const Place& to);

}  // namespace penstock::sync
