// HTTP/1.1 for stores: one thread that drives many transfers over kept connections (libcurl's
// multi interface over epoll).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::store {

enum class HttpMethod : uint8_t { kGet, kHead, kPut, kPost, kDelete };
std::string_view http_method_name(HttpMethod method);

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string url;  // Sent as it is: what must be encoded is.
  std::vector<std::pair<std::string, std::string>> headers;
  std::span<const std::byte> body;  // Of put and post.
  // Where the body of a 2xx answer goes; one that does not fit is a failure. Empty with a null
  // pointer: into HttpResponse::text, as the bodies of all other answers.
  std::span<std::byte> into;
  // Called once, on the loop's thread, when the answer has not begun so long after the request was
  // sent. 0: never.
  Nanoseconds slow_after{0};
  std::function<void()> on_slow;
  bool urgent = false;  // Goes before those that wait for a connection.
};

struct HttpResponse {
  int status = 0;
  size_t bytes = 0;             // In `into`.
  std::string text;             // At most kHttpTextBytesMax.
  bool new_connection = false;  // Made for this request, at first or because a kept one had died.
  std::string header_lines;

  // The value of a header, by its name in any case; empty when it is not there.
  std::string_view header(std::string_view name) const;
};

// Larger than any listing of 1000 keys.
inline constexpr size_t kHttpTextBytesMax = 16 * kMiB;

// An answer with any status is an answer. An Error means that none came: kUnavailable (connection),
// kTimeout (stalled), kIo (cut short), kInvalid (address, certificate). `retryable` says whether
// trying again makes sense.
using HttpDone = std::function<void(Result<HttpResponse>)>;

struct HttpSettings {
  std::string thread_name = "http";
  uint32_t connections = 64;
  Nanoseconds connect_timeout = std::chrono::seconds(10);
  Nanoseconds stall_timeout = std::chrono::seconds(30);
  bool verify_tls = true;
  std::string ca_file;
};

// Threads: post() from any; all else only on the loop's own thread, that is inside a posted
// function, a timer or a `done`.
// Bounds: at most `connections` transfers are under way; others wait, as many as the callers begin.
// Lifetime: the destructor runs what was posted, then ends the thread. The owner sees to it that no
// transfer is left then; those that are end without their `done`.
class HttpLoop {
 public:
  using Id = uint64_t;
  using Clock = std::chrono::steady_clock;

  static Result<std::unique_ptr<HttpLoop>> create(const HttpSettings& settings);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  void post(std::function<void()> function);

  // `done` is called later, never from inside. The spans of the request stay valid until then or
  // until cancel().
  Id start(HttpRequest request, HttpDone done);
  // Ends the transfer without its `done`; its spans are free on return. No matter when it is over.
  void cancel(Id id);

  Id run_at(Clock::time_point time, std::function<void()> function);
  void cancel_timer(Id timer);

 private:
  struct Transfer;

  explicit HttpLoop(const HttpSettings& settings);
  Result<void> open();
  void run();
  void run_posted();
  void run_timers();
  void wait_for_events();
  void finish_completed();
  void finish(Id id, Result<HttpResponse> result);
  std::unique_ptr<Transfer> take(Id id);
  void activate_waiting();
  bool activate(Transfer& transfer);
  void* take_handle();
  void sweep_stalled();
  void schedule_sweep();
  bool may_end();

  static int on_socket(void* easy, int socket, int what, void* self, void* socket_data);
  static int on_close_socket(void* self, int socket);
  void stop_watching(int socket);
  static int on_timer(void* multi, long timeout_ms, void* self);
  static size_t on_header(char* data, size_t size, size_t count, void* transfer);
  static size_t on_body(char* data, size_t size, size_t count, void* transfer);

  // What epoll was asked to tell about a socket.
  struct Watched {
    uint32_t events = 0;  // 0: it is not there.
    bool idle = false;    // No request uses it now.
  };

  const HttpSettings settings_;
  int epoll_ = -1;
  std::vector<Watched> watched_;  // By socket.
  int wake_ = -1;
  void* multi_ = nullptr;
  std::optional<Clock::time_point> curl_timer_;

  std::unordered_map<Id, std::unique_ptr<Transfer>> transfers_;
  std::deque<Id> waiting_;  // For a connection. May name transfers that were cancelled since.
  uint32_t active_ = 0;
  std::vector<void*> idle_handles_;
  std::map<std::pair<Clock::time_point, Id>, std::function<void()>> timers_;
  std::unordered_map<Id, Clock::time_point> timer_times_;
  Id next_id_ = 1;
  bool sweep_scheduled_ = false;

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::store
