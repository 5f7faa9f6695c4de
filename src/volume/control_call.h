// Asking over a connection to the control socket, and waiting for the answer.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "volume/control_messages.h"
#include "volume/control_socket.h"

namespace penstock::volume::control {

// What became of a connection: whether it can be used again, and whether it is worth asking elsewhere.
enum class Health : uint8_t {
  kFine,
  kBroken,  // A call was given up in the middle, or what came was nonsense.
  kLost,    // The other end is gone.
};

// A connection with what is known of it.
struct Link {
  Channel channel;
  Health health = Health::kFine;
  uint64_t last_request = 0;
};

struct Answer {
  std::vector<std::byte> body;
  size_t payload_bytes = 0;
};

// Called with each frame that is not yet the answer.
using OnNews = std::function<Result<void>(const Frame&)>;

// The errors of the answer are returned as they were sent; those of the connection are told apart by
// the link's health.
Result<void> send_request(Link& link, Kind kind, std::span<const std::byte> body,
                          std::span<const std::byte> payload = {});
Result<Answer> await_answer(Link& link, std::span<std::byte> payload, const Patience& patience,
                            const OnNews& on_news = {});
Result<Answer> call(Link& link, Kind kind, std::span<const std::byte> body,
                    const Patience& patience, std::span<std::byte> payload = {},
                    const OnNews& on_news = {});

// The time left, as requests have it.
int64_t timeout_of(Deadline deadline);

}  // namespace penstock::volume::control
