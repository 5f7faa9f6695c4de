// One member of a cache directory, told by lines on standard input what to do; answers each with a
// line. For tests that take several processes, and kill some.
//
//   keeper_tool DIRECTORY QUOTA_BYTES [TICK_MS]
//
//   fill FIRST COUNT BLOCKS   tries to fill entries FIRST, FIRST+1 …: "filled N"
//   flood FIRST COUNT BLOCKS  the same in the background, each finished at once, over and over
//   partial                   leaves a half-written file, as a fill under way has
//   quota BYTES
//   status                    "key=value …"
//   settle                    "ok", or the error
//   leave                     as when the process ends in order
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

#include "cache/directory.h"
#include "cache/directory_open.h"
#include "cache/keeper.h"
#include "penstock/frame.h"

namespace {

using namespace penstock;
using namespace penstock::cache;
using std::chrono::steady_clock;

EntryName name_of_number(uint64_t number, uint32_t blocks) {
  const std::span bytes = std::as_bytes(std::span(&number, 1));
  return {{codec::hash_bytes(bytes, 1), codec::hash_bytes(bytes, 2)}, blocks};
}

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

// Resident, of this process.
uint64_t memory_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long long size = 0;
  unsigned long long resident = 0;
  if (file != nullptr) {
    if (std::fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

class Member {
 public:
  Member(CacheDirectory& directory, const KeeperOptions& options) : directory_(directory) {
    memory_before_ = memory_bytes();
    started_ = steady_clock::now();
    keeper_ = Keeper::start(directory, options);
    start_ms_ = ms_since(started_);
    watch_ = std::thread([this] { watch(); });
  }
  ~Member() {
    stop_ = true;
    if (flood_.joinable()) flood_.join();
    watch_.join();
    keeper_.reset();
  }

  uint64_t fill(uint64_t first, uint64_t count, uint32_t blocks) {
    uint64_t filled = 0;
    for (uint64_t i = first; i < first + count; ++i) filled += fill_one(name_of_number(i, blocks));
    return filled;
  }

  void flood(uint64_t first, uint64_t count, uint32_t blocks) {
    flood_ = std::thread([this, first, count, blocks] {
      for (uint64_t i = 0; !stop_; i = (i + 1) % count) {
        const EntryName name = name_of_number(first + i, blocks);
        keeper_->note_missed(name.id, name.file_bytes());
        if (fill_one(name)) {
          ++flooded_;
          keeper_->note_finished(name.id, false);
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    });
  }

  void leave_partial() {
    (void)directory_.file_system().open(
        fmt::format("{}/{}/{}-999", directory_.path(), kTemporaryName, directory_.member()),
        {.access = io::Access::kWrite, .create = io::Create::kIfMissing});
  }

  std::string status() const {
    const KeeperStatus status = keeper_->status();
    return fmt::format(
        "member={} evictor={} known={} used={} limit={} entries={} members={} evictions={} room={} "
        "flooded={} start_ms={:.3f} reserve_ms={:.3f} known_ms={:.3f} index_bytes={} "
        "memory_bytes={}",
        directory_.member(), int{status.evictor}, int{status.known}, status.used_bytes,
        status.limit_bytes, status.entries, status.members, status.evictions, keeper_->room_bytes(),
        flooded_.load(), start_ms_, reserve_ms_.load(), known_ms_.load(), status.index_bytes,
        memory_bytes() - memory_before_);
  }

  Keeper& keeper() { return *keeper_; }

 private:
  bool fill_one(const EntryName& name) {
    if (!keeper_->reserve(name)) return false;
    std::vector<std::byte> file(name.file_bytes());
    if (!directory_.publish(name, std::span(file)).ok()) {
      keeper_->cancel_fill(name);
      return false;
    }
    keeper_->note_added(name);
    return true;
  }

  // When room was given first, and when everything was counted.
  void watch() {
    while (!stop_ && known_ms_ == 0) {
      if (reserve_ms_ == 0 && keeper_->room_bytes() > 0) reserve_ms_ = ms_since(started_);
      if (keeper_->status().known) known_ms_ = ms_since(started_);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  CacheDirectory& directory_;
  std::unique_ptr<Keeper> keeper_;
  uint64_t memory_before_ = 0;
  steady_clock::time_point started_;
  double start_ms_ = 0;
  std::atomic<double> reserve_ms_ = 0;
  std::atomic<double> known_ms_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> flooded_ = 0;
  std::thread flood_;
  std::thread watch_;
};

std::string answer(Member& member, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  uint64_t first = 0;
  uint64_t count = 0;
  uint32_t blocks = 0;
  words >> verb >> first >> count >> blocks;
  if (verb == "fill") return fmt::format("filled {}", member.fill(first, count, blocks));
  if (verb == "status") return member.status();
  if (verb == "settle") {
    const Result<void> settled = member.keeper().settle(deadline_in(std::chrono::seconds(60)));
    return settled.ok() ? "ok" : settled.error().to_string();
  }
  if (verb == "flood") {
    member.flood(first, count, blocks);
  } else if (verb == "partial") {
    member.leave_partial();
  } else if (verb == "quota") {
    member.keeper().set_quota({.bytes = first});
  } else {
    return "what?";
  }
  return "ok";
}

Result<void> run(int argc, char** argv) {
  const auto fs = PENSTOCK_TRY(io::open_local_file_system({.engine = io::EngineKind::kThreads}));
  const auto directory = PENSTOCK_TRY(CacheDirectory::open(*fs, argv[1], io::CacheMode::kBuffered));
  KeeperOptions options{.quota = {.bytes = std::stoull(argv[2])}, .free_floor = {.bytes = 0}};
  if (argc > 3) options.tick = std::chrono::milliseconds(std::stoull(argv[3]));
  options.on_error = [](const Error& error) { std::cerr << error.to_string() << std::endl; };
  Member member(*directory, options);
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line) && line != "leave") {
    std::cout << answer(member, line) << std::endl;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: keeper_tool DIRECTORY QUOTA_BYTES [TICK_MS]\n";
    return 2;
  }
  const Result<void> done = run(argc, argv);
  if (!done.ok()) std::cerr << done.error().to_string() << "\n";
  return done.ok() ? 0 : 1;
}
