#pragma once

#include <memory>
#include <stop_token>

#include "penstock/store.h"

namespace penstock::data {

// A store whose gets and heads end with kCancelled once `stop` is asked for: for a far one, which may
// not answer for long when a reader wants to end. Calls with a token of their own keep that.
std::unique_ptr<store::ObjectStore> make_stoppable(std::unique_ptr<store::ObjectStore> inner,
                                                   std::stop_token stop);

}  // namespace penstock::data
