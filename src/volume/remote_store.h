// A volume of another process as a store.
#pragma once

#include <memory>

#include "penstock/store.h"
#include "volume/control_socket.h"
#include "volume/pen_store.h"

namespace penstock::volume {

// Over connections to the control socket, of which `channel` is the first. Goes on with the next owner,
// be it this process: see open_pen_store().
Result<std::unique_ptr<store::ObjectStore>> make_remote_store(const PenOptions& options,
                                                              control::Channel channel);

}  // namespace penstock::volume
