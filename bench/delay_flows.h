// What delay_proxy knows of its connections, and what it is told.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>

namespace delay {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

struct Options {
  uint16_t server_port = 0;
  nanoseconds delay = std::chrono::milliseconds(10);
  uint64_t window_bytes = uint64_t{64} << 20;
  uint64_t bytes_per_second = 0;
};

// What was read at once. An empty one is the end of the stream.
struct Chunk {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
  size_t written = 0;
};

// One direction of one connection.
struct Flow {
  int from = -1;
  int to = -1;
  std::deque<Chunk> under_way;
  std::deque<Chunk> arrived;
  uint64_t unacknowledged_bytes = 0;
  bool ended = false;     // Nothing more comes from `from`.
  bool finished = false;  // And `to` was told.
  bool in_line = false;   // Waits for its turn on the link.
};

struct Connection {
  std::array<Flow, 2> flows;           // To the server, and back.
  std::array<uint32_t, 2> interest{};  // What each socket is watched for; 0: not at all.
  bool established = false;
  bool closed = false;
};
using ConnectionRef = std::shared_ptr<Connection>;

// The link in one direction.
struct Link {
  Clock::time_point free_at{};
  std::deque<ConnectionRef> line;
  bool wakes = false;
};

inline bool parse(int argc, char** argv, Options& options) {
  if (argc < 2 || argc % 2 != 0) return false;
  options.server_port = static_cast<uint16_t>(std::strtoul(argv[1], nullptr, 10));
  for (int i = 2; i < argc; i += 2) {
    const std::string_view name = argv[i];
    char* end = nullptr;
    const double value = std::strtod(argv[i + 1], &end);
    if (*end != '\0' || value < 0) return false;
    if (name == "--delay-ms") {
      options.delay =
          std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double, std::milli>(value));
    } else if (name == "--window" && value >= 1) {
      options.window_bytes = static_cast<uint64_t>(value);
    } else if (name == "--rate") {
      options.bytes_per_second = static_cast<uint64_t>(value);
    } else {
      return false;
    }
  }
  return options.server_port != 0;
}

inline int connect_to(uint16_t port) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (server < 0) return -1;
  if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      fcntl(server, F_SETFL, O_NONBLOCK) != 0) {
    close(server);
    return -1;
  }
  return server;
}

}  // namespace delay
