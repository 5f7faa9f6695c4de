#include "store/http_client.h"

#include <curl/curl.h>
#include <fmt/core.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/thread_pool.h"
#include "store/http_error.h"

namespace penstock::store {

namespace {

// Large enough that a 4 MiB body takes few system calls, small enough to stay in the second-level
// cache until it is copied to the caller.
constexpr long kReceiveBytes = 256 * 1024;
constexpr long kSendBytes = 1024 * 1024;

thread_local const HttpLoop* current_loop = nullptr;

int to_poll_ms(HttpLoop::Clock::time_point due, HttpLoop::Clock::time_point now) {
  if (due <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - now).count();
  return static_cast<int>(std::min<int64_t>(left, 60'000));
}

long to_ms(Nanoseconds time) {
  return static_cast<long>(
      std::max<int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(time).count()));
}

curl_slist* make_header_list(const HttpRequest& request) {
  curl_slist* list = nullptr;
  const auto add = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list, line.c_str());
    assert(longer != nullptr);
    list = longer;
  };
  for (const auto& [name, value] : request.headers) add(name + ": " + value);
  if (request.method == HttpMethod::kPut || request.method == HttpMethod::kPost) {
    add("Expect:");  // Waiting for "100 Continue" costs a round trip.
    add("Content-Type:");
  }
  return list;
}

}  // namespace

struct HttpLoop::Transfer {
  Id id = 0;
  HttpRequest request;
  HttpDone done;
  HttpResponse response;
  CURL* easy = nullptr;  // Null while it waits for a connection.
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_text{};
  bool body_begun = false;
  bool body_to_span = false;
  bool body_too_long = false;
  Id slow_timer = 0;
  uint64_t bytes_seen = 0;  // Both ways, at `moved_at`.
  Clock::time_point moved_at;

  ~Transfer() { curl_slist_free_all(headers); }
  size_t take_body(const char* data, size_t size);
};

size_t HttpLoop::Transfer::take_body(const char* data, size_t size) {
  if (!body_begun) {
    body_begun = true;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    body_to_span = request.into.data() != nullptr && status >= 200 && status < 300;
  }
  const size_t room = body_to_span ? request.into.size() - response.bytes
                                   : kHttpTextBytesMax - response.text.size();
  if (size > room) {
    body_too_long = true;
    return 0;
  }
  if (body_to_span) {
    std::memcpy(request.into.data() + response.bytes, data, size);
    response.bytes += size;
  } else {
    response.text.append(data, size);
  }
  return size;
}

std::string_view http_method_name(HttpMethod method) {
  constexpr std::string_view kNames[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
  return kNames[static_cast<size_t>(method)];
}

std::string_view HttpResponse::header(std::string_view name) const {
  std::string_view rest = header_lines;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.size() <= name.size() || line[name.size()] != ':' ||
        strncasecmp(line.data(), name.data(), name.size()) != 0) {
      continue;
    }
    std::string_view value = line.substr(name.size() + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
      value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\r')) value.remove_suffix(1);
    return value;
  }
  return {};
}

Result<std::unique_ptr<HttpLoop>> HttpLoop::create(const HttpSettings& settings) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) {
    return make_error(ErrorCode::kUnsupported, "libcurl cannot be initialised");
  }
  std::unique_ptr<HttpLoop> loop(new HttpLoop(settings));
  PENSTOCK_TRY(loop->open());
  return loop;
}

HttpLoop::HttpLoop(const HttpSettings& settings) : settings_(settings) {}

Result<void> HttpLoop::open() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return errno_error(errno, "epoll_create1");
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return errno_error(errno, "eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0) return errno_error(errno, "epoll_ctl");
  multi_ = curl_multi_init();
  if (multi_ == nullptr) return make_error(ErrorCode::kNoMemory, "curl_multi_init failed");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &HttpLoop::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &HttpLoop::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(settings_.connections));
  thread_ = std::thread([this] { run(); });
  return {};
}

HttpLoop::~HttpLoop() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    post([] {});
    thread_.join();
  }
  for (auto& [id, transfer] : transfers_) {
    if (transfer->easy == nullptr) continue;
    curl_multi_remove_handle(multi_, transfer->easy);
    curl_easy_cleanup(transfer->easy);
  }
  for (void* easy : idle_handles_) curl_easy_cleanup(easy);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  if (wake_ >= 0) close(wake_);
  if (epoll_ >= 0) close(epoll_);
}

void HttpLoop::post(std::function<void()> function) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(function));
  }
  // The loop looks at what was posted before it sleeps, so from its own thread it needs no waking.
  if (!was_empty || current_loop == this) return;
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake anyway.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void HttpLoop::run() {
  current_loop = this;
  set_thread_name(settings_.thread_name);
  // OpenSSL writes to sockets without MSG_NOSIGNAL, and other signals are for other threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    run_posted();
    run_timers();
    if (curl_timer_ && *curl_timer_ <= Clock::now()) {
      curl_timer_.reset();
      int running = 0;
      curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    finish_completed();
    if (may_end()) return;
    wait_for_events();
    finish_completed();
  }
}

bool HttpLoop::may_end() {
  std::lock_guard lock(mutex_);
  return stopping_ && posted_.empty();
}

void HttpLoop::run_posted() {
  std::vector<std::function<void()>> functions;
  {
    std::lock_guard lock(mutex_);
    functions.swap(posted_);
  }
  for (const auto& function : functions) function();
}

void HttpLoop::run_timers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto due = timers_.extract(timers_.begin());
    timer_times_.erase(due.key().second);
    due.mapped()();
  }
}

void HttpLoop::wait_for_events() {
  const auto now = Clock::now();
  int timeout_ms = 60'000;
  if (curl_timer_) timeout_ms = std::min(timeout_ms, to_poll_ms(*curl_timer_, now));
  if (!timers_.empty()) {
    timeout_ms = std::min(timeout_ms, to_poll_ms(timers_.begin()->first.first, now));
  }
  {
    std::lock_guard lock(mutex_);
    if (!posted_.empty()) timeout_ms = 0;
  }
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == wake_) {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t got = read(wake_, &ignored, sizeof(ignored));
      continue;
    }
    if (watched_[events[i].data.fd].idle) {
      stop_watching(events[i].data.fd);  // The server closed a connection that nobody uses.
      continue;
    }
    int what = 0;
    if ((events[i].events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((events[i].events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
    int running = 0;
    curl_multi_socket_action(multi_, events[i].data.fd, what, &running);
  }
}

// libcurl lets go of a connection's socket after every request and takes it up with the next one.
// epoll is told only when that changes anything: two system calls less for each request.
int HttpLoop::on_socket(void* /*easy*/, int socket, int what, void* self, void* /*socket_data*/) {
  auto* loop = static_cast<HttpLoop*>(self);
  if (loop->watched_.size() <= static_cast<size_t>(socket)) loop->watched_.resize(socket + 1);
  Watched& watched = loop->watched_[socket];
  watched.idle = what == CURL_POLL_REMOVE;
  if (watched.idle) return 0;
  epoll_event event{};
  event.data.fd = socket;
  if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  if (watched.events == event.events) return 0;
  epoll_ctl(loop->epoll_, watched.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket, &event);
  watched.events = event.events;
  return 0;
}

int HttpLoop::on_close_socket(void* self, int socket) {
  auto* loop = static_cast<HttpLoop*>(self);
  // Closing takes it out of epoll; its number may soon belong to another connection.
  if (static_cast<size_t>(socket) < loop->watched_.size()) loop->watched_[socket] = {};
  return close(socket);
}

void HttpLoop::stop_watching(int socket) {
  epoll_event event{};
  epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, &event);
  watched_[socket] = {};
}

int HttpLoop::on_timer(void* /*multi*/, long timeout_ms, void* self) {
  auto* loop = static_cast<HttpLoop*>(self);
  loop->curl_timer_.reset();
  if (timeout_ms >= 0) loop->curl_timer_ = Clock::now() + std::chrono::milliseconds(timeout_ms);
  return 0;
}

size_t HttpLoop::on_header(char* data, size_t size, size_t count, void* transfer) {
  std::string& lines = static_cast<Transfer*>(transfer)->response.header_lines;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) lines.clear();  // Those of an interim answer are of no interest.
  lines.append(line);
  return line.size();
}

size_t HttpLoop::on_body(char* data, size_t size, size_t count, void* transfer) {
  return static_cast<Transfer*>(transfer)->take_body(data, size * count);
}

HttpLoop::Id HttpLoop::start(HttpRequest request, HttpDone done) {
  auto transfer = std::make_unique<Transfer>();
  const Id id = next_id_++;
  transfer->id = id;
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  if (transfer->request.urgent) {
    waiting_.push_front(id);
  } else {
    waiting_.push_back(id);
  }
  transfers_.emplace(id, std::move(transfer));
  activate_waiting();
  return id;
}

void HttpLoop::activate_waiting() {
  while (active_ < settings_.connections && !waiting_.empty()) {
    const Id id = waiting_.front();
    waiting_.pop_front();
    const auto found = transfers_.find(id);
    if (found == transfers_.end()) continue;
    if (activate(*found->second)) continue;
    post([this, id] {
      finish(id, make_error(ErrorCode::kNoMemory, "libcurl could not begin a request", true));
    });
  }
}

void* HttpLoop::take_handle() {
  if (!idle_handles_.empty()) {
    void* easy = idle_handles_.back();
    idle_handles_.pop_back();
    return easy;
  }
  CURL* easy = curl_easy_init();
  if (easy == nullptr) return nullptr;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBytes);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kSendBytes);
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, to_ms(settings_.connect_timeout));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, settings_.verify_tls ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, settings_.verify_tls ? 2L : 0L);
  if (!settings_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, settings_.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &HttpLoop::on_close_socket);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpLoop::on_header);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpLoop::on_body);
  return easy;
}

bool HttpLoop::activate(Transfer& transfer) {
  CURL* easy = take_handle();
  if (easy == nullptr) return false;
  const HttpRequest& request = transfer.request;
  const bool has_body = request.method == HttpMethod::kPut || request.method == HttpMethod::kPost;
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error_text.data());
  transfer.headers = make_header_list(request);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
  if (has_body) {
    // As the fields of a POST: libcurl then sends a small body in one packet with the headers, and
    // can begin anew by itself when a kept connection turns out to be dead.
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(
        easy, CURLOPT_POSTFIELDS,
        request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
  } else if (request.method == HttpMethod::kHead) {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else {
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  }
  const bool is_named = request.method == HttpMethod::kPut || request.method == HttpMethod::kDelete;
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                   is_named ? http_method_name(request.method).data() : nullptr);
  if (curl_multi_add_handle(multi_, easy) != CURLM_OK) {
    curl_easy_cleanup(easy);
    return false;
  }
  transfer.easy = easy;
  transfer.moved_at = Clock::now();
  ++active_;
  if (request.slow_after.count() > 0) {
    transfer.slow_timer = run_at(transfer.moved_at + request.slow_after, [this, id = transfer.id] {
      const auto found = transfers_.find(id);
      if (found == transfers_.end()) return;
      found->second->slow_timer = 0;
      if (found->second->response.header_lines.empty()) found->second->request.on_slow();
    });
  }
  schedule_sweep();
  return true;
}

std::unique_ptr<HttpLoop::Transfer> HttpLoop::take(Id id) {
  auto node = transfers_.extract(id);
  if (node.empty()) return nullptr;
  std::unique_ptr<Transfer> transfer = std::move(node.mapped());
  if (transfer->slow_timer != 0) cancel_timer(transfer->slow_timer);
  if (transfer->easy != nullptr) {
    curl_multi_remove_handle(multi_, transfer->easy);
    curl_easy_setopt(transfer->easy, CURLOPT_ERRORBUFFER, nullptr);
    idle_handles_.push_back(transfer->easy);
    --active_;
  }
  return transfer;
}

void HttpLoop::cancel(Id id) {
  if (take(id)) activate_waiting();
}

void HttpLoop::finish(Id id, Result<HttpResponse> result) {
  const std::unique_ptr<Transfer> transfer = take(id);
  if (!transfer) return;
  activate_waiting();
  transfer->done(std::move(result));
}

void HttpLoop::finish_completed() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* easy = message->easy_handle;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    if (code != CURLE_OK) {
      long os_errno = 0;
      curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno);
      finish(transfer->id,
             transfer->body_too_long
                 ? make_error(ErrorCode::kIo, "the server sent more than was asked for", true)
                 : http_transport_error(code, static_cast<int>(os_errno),
                                        transfer->error_text.data()));
      continue;
    }
    long status = 0;
    long connects = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
    transfer->response.status = static_cast<int>(status);
    transfer->response.new_connection = connects > 0;
    finish(transfer->id, std::move(transfer->response));
  }
}

HttpLoop::Id HttpLoop::run_at(Clock::time_point time, std::function<void()> function) {
  const Id id = next_id_++;
  timers_.emplace(std::pair(time, id), std::move(function));
  timer_times_.emplace(id, time);
  return id;
}

void HttpLoop::cancel_timer(Id timer) {
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase(std::pair(found->second, timer));
  timer_times_.erase(found);
}

void HttpLoop::schedule_sweep() {
  if (sweep_scheduled_) return;
  sweep_scheduled_ = true;
  const auto interval =
      std::max<Nanoseconds>(settings_.stall_timeout / 4, std::chrono::milliseconds(5));
  run_at(Clock::now() + interval, [this] {
    sweep_scheduled_ = false;
    sweep_stalled();
    if (active_ > 0) schedule_sweep();
  });
}

// Fails transfers that moved no byte for too long. libcurl's own low-speed limit counts whole
// seconds and needs its clock per transfer; one look at all a few times per period costs nothing.
void HttpLoop::sweep_stalled() {
  const auto now = Clock::now();
  std::vector<Id> stalled;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer->easy == nullptr) continue;
    curl_off_t up = 0;
    curl_off_t down = 0;
    curl_off_t connected_us = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    const uint64_t bytes =
        static_cast<uint64_t>(up + down) + transfer->response.header_lines.size();
    if (bytes != transfer->bytes_seen || connected_us == 0) {
      transfer->bytes_seen = bytes;
      transfer->moved_at = now;  // While it connects, the connect timeout watches.
    } else if (now - transfer->moved_at >= settings_.stall_timeout) {
      stalled.push_back(id);
    }
  }
  for (const Id id : stalled) {
    finish(id,
           make_error(ErrorCode::kTimeout,
                      fmt::format("no byte moved for {}", format_duration(settings_.stall_timeout)),
                      true));
  }
}

}  // namespace penstock::store
