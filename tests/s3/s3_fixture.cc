#include "s3_fixture.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>

#include "base/log.h"

namespace penstock::store {

namespace {

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "s3_test: {}\n", why);
  std::exit(1);
}

size_t append_to_string(char* data, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(data, size * count);
  return size * count;
}

}  // namespace

Result<void> create_bucket(const std::string& bucket, const S3Options& options) {
  const std::shared_ptr<S3Client> client = PENSTOCK_TRY(S3Client::create(bucket, options));
  S3Request request;
  request.op = S3Op::kPut;
  request.method = HttpMethod::kPut;
  std::promise<Result<void>> created;
  client->send(std::move(request), [&](const Result<HttpResponse>& answer, const S3History&) {
    created.set_value(answer.ok() ? Result<void>() : answer.error());
  });
  return created.get_future().get();
}

ChildProxy::ChildProxy(const std::vector<std::string>& arguments) {
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) stop("pipe failed");
  std::vector<std::string> words = {"python3", PENSTOCK_SOURCE_DIR "/tests/s3/fault_proxy.py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  input_ = to_child[1];
  std::string line;
  for (char c = 0; read(from_child[0], &c, 1) == 1 && c != '\n';) line += c;
  close(from_child[0]);
  port_ = std::atoi(line.c_str());
  if (port_ == 0) stop("tests/s3/fault_proxy.py did not start: is python3 installed?");
}

ChildProxy::~ChildProxy() {
  close(input_);
  waitpid(pid_, nullptr, 0);
}

S3TestServer& S3TestServer::get() {
  static S3TestServer* const server = [] {
    const char* endpoint = std::getenv("PENSTOCK_TEST_S3");
    if (endpoint == nullptr) {
      stop("$PENSTOCK_TEST_S3 names no S3 server. Run tests/s3/run, or start one: tools/s3-server");
    }
    auto* made = new S3TestServer;
    made->options = *s3_options_from_environment();
    made->options.endpoint = endpoint;
    made->host = made->options.endpoint.substr(made->options.endpoint.find("//") + 2);
    made->bucket = fmt::format("s3-test-{:08x}", std::random_device{}());
    const Result<void> created = create_bucket(made->bucket, made->options);
    if (!created.ok()) stop(created.error().to_string());
    made->proxy = std::make_unique<ChildProxy>(std::vector{made->host});
    return made;
  }();
  return *server;
}

void S3Test::SetUp() {
  static std::atomic<int> next{0};
  S3TestServer::get();
  prefix_ = fmt::format("t{}", next++);
  set_rules("[]");
  set_log_level(LogLevel::kDebug);
  set_log_sink([this](std::string_view line) { log_.emplace_back(line); });
}

void S3Test::TearDown() {
  set_log_sink({});
  set_log_level(LogLevel::kWarn);
}

S3Options S3Test::direct_options() {
  S3Options options = S3TestServer::get().options;
  options.backoff_min = std::chrono::milliseconds(5);
  options.backoff_max = std::chrono::milliseconds(200);
  return options;
}

S3Options S3Test::proxy_options() {
  S3Options options = direct_options();
  options.endpoint = fmt::format("http://127.0.0.1:{}", S3TestServer::get().proxy->port());
  return options;
}

std::unique_ptr<S3Store> S3Test::open(const S3Options& options, const S3StoreSettings& settings) {
  auto store = make_s3_store(S3TestServer::get().bucket, prefix_, options, settings);
  if (!store.ok()) stop(store.error().to_string());
  return std::move(*store);
}

namespace {

std::string ask_proxy(const std::string& path, const std::string* body) {
  CURL* easy = curl_easy_init();
  std::string answer;
  const std::string url =
      fmt::format("http://127.0.0.1:{}/-/{}", S3TestServer::get().proxy->port(), path);
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &append_to_string);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
  if (body != nullptr) curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body->c_str());
  const CURLcode code = curl_easy_perform(easy);
  curl_easy_cleanup(easy);
  if (code != CURLE_OK) stop("the fault proxy does not answer");
  return answer;
}

}  // namespace

size_t S3Test::uploads_left(S3Store& store, const std::string& key) {
  S3Request request;
  request.query = {{"uploads", ""}, {"prefix", prefix_ + "/" + key}};
  std::promise<std::string> answer;
  store.client().send(std::move(request), [&](Result<HttpResponse> response, const S3History&) {
    answer.set_value(response.ok() ? response->text : "");
  });
  const std::string xml = answer.get_future().get();
  EXPECT_THAT(xml, testing::HasSubstr("ListMultipartUploadsResult"));
  size_t found = 0;
  for (size_t at = 0; (at = xml.find("<UploadId>", at)) != std::string::npos; ++at) ++found;
  return found;
}

void S3Test::set_rules(const std::string& json) {
  ask_proxy("rules", &json);
}

std::string S3Test::proxy_state(const std::string& name) {
  return ask_proxy(name, nullptr);
}

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace penstock::store

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  // A proxy that ended must not end the tests.
  signal(SIGPIPE, SIG_IGN);
  return RUN_ALL_TESTS();
}
