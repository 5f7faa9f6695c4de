// How fast one process reads a volume that another one has, over its control socket: reads of 1 MiB in
// random places of a file that is in the owner's memory, beside the owner's own.
//
//   control_bench DIR [SECONDS]       DIR must not be there
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "penstock/volume.h"
#include "volume/owner.h"
#include "volume/pen_store.h"

namespace {

using namespace penstock;

constexpr uint64_t kFileBytes = 256 * kMiB;

volume::PenOptions pen(const std::string& directory) {
  volume::PenOptions options;
  options.directory = directory;
  options.volume = "v";
  options.name = "v";
  return options;
}

// Bytes per second.
double measure(store::ObjectStore& store, int threads, double seconds) {
  std::atomic<uint64_t> bytes = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  const auto begin = std::chrono::steady_clock::now();
  for (int t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<std::byte> into(kMiB);
      while (!stop) {
        const auto got = store.get("file", random() % (kFileBytes / kMiB) * kMiB, into);
        if (!got.ok()) {
          fmt::print(stderr, "{}\n", got.error().to_string());
          std::exit(1);
        }
        bytes += got->bytes;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(bytes) / took.count();
}

int run(const std::string& directory, double seconds, std::string_view who) {
  const auto store = volume::open_pen_store(pen(directory));
  if (!store.ok()) {
    fmt::print(stderr, "{}\n", store.error().to_string());
    return 1;
  }
  (void)measure(**store, 1, seconds / 4);
  for (const int threads : {1, 2, 4}) {
    fmt::print("{:<7} {} readers  {}\n", who, threads,
               format_rate(measure(**store, threads, seconds)));
  }
  return 0;
}

Result<void> fill(const std::string& directory) {
  const auto host = PENSTOCK_TRY(
      volume::create_host(directory, {.name = "v", .codec = {codec::Codec::kNone}}, {}));
  const auto volume = PENSTOCK_TRY(host->open("v"));
  const auto file = PENSTOCK_TRY(volume->create(meta::kRoot, "file", {.mode = S_IFREG | 0644}));
  std::vector<std::byte> bytes(kMiB);
  std::mt19937_64 random(1);
  for (uint64_t at = 0; at < kFileBytes; at += kMiB) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    PENSTOCK_TRY(volume->write(file.ino, at, bytes));
  }
  return host->drain(kNoDeadline);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const std::string directory = arguments[1];
  const double seconds = count > 2 ? std::atof(arguments[2]) : 2;
  std::array<int, 2> go{};
  if (::pipe(go.data()) != 0) return 1;
  const pid_t child = ::fork();  // Before there are threads.
  char byte = 0;
  if (child == 0) {
    ::close(go[1]);
    if (::read(go[0], &byte, 1) != 1) return 1;
    return run(directory, seconds, "client");
  }
  const Result<void> filled = fill(directory);
  if (!filled.ok()) {
    fmt::print(stderr, "{}\n", filled.error().to_string());
    return 1;
  }
  const auto owner = volume::reach(directory, {});
  if (!owner.ok()) return 1;
  const int own = run(directory, seconds, "owner");
  std::fflush(stdout);
  [[maybe_unused]] const ssize_t told = ::write(go[1], &byte, 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return own != 0 || status != 0 ? 1 : 0;
}
