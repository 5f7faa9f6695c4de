// One connection to the control socket, at the end of who has the volume.
// Threads: its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "volume/control_messages.h"
#include "volume/control_socket.h"

namespace penstock::volume {
class ControlServer;
}

namespace penstock::volume::control {

class Session {
 public:
  // Both outlive it.
  Session(ControlServer& server, Channel& channel) : server_(server), channel_(channel) {}

  // Until the peer goes, says what makes no sense, or the server stops.
  void run();

 private:
  using Body = std::vector<std::byte>;

  // An error ends the connection. What was asked for and failed is none: it is answered.
  Result<void> handle(const Frame& frame);
  // The body of the answer to what has no payload.
  Result<Body> answer_to(const Frame& frame);
  Result<void> reply(uint64_t request, const Result<Body>& answer);

  // control_session_store.cc
  Result<Body> store_answer(const Frame& frame);
  Result<Body> open_store(const Frame& frame);
  Result<void> get(const Frame& frame);
  Result<void> put(const Frame& frame);
  Result<std::unique_ptr<store::Upload>> start_put(const Frame& frame);
  Result<store::ObjectStore*> store();

  // control_session_admin.cc
  Result<Body> admin_answer(const Frame& frame);
  Result<Body> long_answer(const Frame& frame);
  Result<Body> gc(const Frame& frame);
  Result<Body> fsck(const Frame& frame);
  Result<Body> drain(const Frame& frame);
  Result<Body> mount(const Frame& frame);
  Result<void> send_findings(uint64_t request, const std::vector<Finding>& findings);
  // Does the work on another thread, while the peer gets signs of life: `progress`, as it is then.
  // Stops it when the peer goes.
  void run_long(uint64_t request, const std::function<void(std::stop_token)>& work,
                const std::function<Body()>& progress);

  ControlServer& server_;
  Channel& channel_;
  std::shared_ptr<store::ObjectStore> store_;
  std::vector<std::byte> payload_;  // Of what comes in, and what goes out.
};

// The deadline of a timeout as requests have it.
Deadline deadline_of(int64_t timeout_ns);

}  // namespace penstock::volume::control
