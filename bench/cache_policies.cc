// What share of the bytes read comes from a cache, under our policy and under others, over traces of
// training jobs. Prints a table, or JSON for bench/compare_cache_policies.py with --json.
// Usage: cache_policies [--json]
//
// Simulated: no file is touched, and the same seed gives the same figures everywhere. Ours is driven
// by the code that the cache itself uses (src/cache/room.h).
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string_view>

#include "cache/simulation.h"
#include "cache_peers.h"

namespace {

using namespace penstock;
using namespace penstock::cache::simulation;

constexpr uint32_t kCapacity = 2000;  // Windows of 4 MiB; "C" below.

uint32_t times(double share) {
  return static_cast<uint32_t>(kCapacity * share);
}

struct Trace {
  std::string_view name;   // For scripts.
  std::string_view title;  // For people.
  Stream accesses;
  size_t from = 0;  // Counted from this access on.
  int stream = -1;  // And only of this job; -1: of all.
};

Stream joined(Stream first, const Stream& second) {
  append(first, second);
  return first;
}

Trace steady(std::string_view name, std::string_view title, Stream stream, int job = -1) {
  const size_t half = stream.size() / 2;
  return {name, title, std::move(stream), half, job};
}

// Epoch two and three of B, after five of A.
Trace switched(std::string_view name, std::string_view title, const Stream& a, Stream b) {
  const size_t epoch = b.size() / 3;
  return {name, title, joined(a, b), a.size() + epoch};
}

std::vector<Trace> make_traces() {
  const uint32_t n = times(2);
  std::vector<Trace> traces;
  traces.push_back(steady("fits", "loop over 0.9 C", cyclic(0, times(0.9), 8)));
  traces.push_back(steady("loop-1.1", "loop over 1.1 C", cyclic(0, times(1.1), 8)));
  traces.push_back(steady("loop-2", "loop over 2 C", cyclic(0, n, 8)));
  traces.push_back(steady("loop-4", "loop over 4 C", cyclic(0, times(4), 8)));
  traces.push_back(steady("loop-20", "loop over 20 C", cyclic(0, times(20), 6)));
  traces.push_back(steady("shuffled", "2 C, shuffled each epoch", shuffled(0, n, 10, 1)));
  traces.push_back(
      steady("samples", "2 C, shuffled samples of 100 KiB", shuffled_samples(0, n, 6, 2)));
  traces.push_back(
      steady("two-jobs", "two jobs, 2 C each", mixed(cyclic(0, n, 8), shuffled(n, n, 8, 3), 1)));
  traces.push_back(steady("same-data", "two jobs on the same 2 C, apart",
                          mixed(cyclic(0, n, 8), cyclic(0, n, 8, times(0.7)), 1)));
  traces.push_back(steady("small-large", "a job of 0.5 C beside one of 5 C",
                          mixed(shuffled(0, times(0.5), 40, 4), shuffled(n, times(5), 4, 5), 1)));
  traces.push_back(steady("hot-scan", "hot 0.5 C beside a scan: hits of the hot",
                          mixed(zipf(0, times(0.5), times(20), 0.8, 6), cyclic(n, times(40), 1), 1),
                          0));
  const Stream scan = cyclic(times(50), times(4), 1);
  traces.push_back({"hot-arrives", "hot 0.5 C comes into a cache full of a scan",
                    joined(scan, mixed(shuffled(0, times(0.5), 16, 7), cyclic(n, times(20), 1), 1)),
                    scan.size() + n, 0});
  traces.push_back(
      switched("switch-loop", "from 2 C to another 2 C, loops", cyclic(0, n, 5), cyclic(n, n, 3)));
  traces.push_back(switched("switch-shuffled", "from 2 C to another 2 C, shuffled",
                            shuffled(0, n, 5, 8), shuffled(n, n, 3, 9)));
  traces.push_back(steady("zipf", "Zipf 0.9 over 10 C", zipf(0, times(10), times(60), 0.9, 10)));
  return traces;
}

SimulatedTally run_ours(const Trace& trace) {
  SimulatedCache cache(kCapacity);
  SimulatedTally tally;
  for (size_t i = 0; i < trace.accesses.size(); ++i) {
    const Access& access = trace.accesses[i];
    bool filled = false;
    const bool hit = cache.access(access, &filled);
    if (i < trace.from) continue;
    tally.fill_bytes += filled ? kWindowBytes : 0;
    if (trace.stream >= 0 && access.stream != trace.stream) continue;
    tally.bytes += access.bytes;
    tally.hit_bytes += hit ? access.bytes : 0;
  }
  return tally;
}

SimulatedTally run_peer(const Trace& trace, peers::Peer& peer, bool fills_all) {
  SimulatedTally tally;
  for (size_t i = 0; i < trace.accesses.size(); ++i) {
    const Access& access = trace.accesses[i];
    const bool hit = peer.access(access.window);
    if (i < trace.from) continue;
    tally.fill_bytes += !hit && fills_all ? kWindowBytes : 0;
    if (trace.stream >= 0 && access.stream != trace.stream) continue;
    tally.bytes += access.bytes;
    tally.hit_bytes += hit ? access.bytes : 0;
  }
  return tally;
}

SimulatedTally run_optimum(const Trace& trace) {
  std::vector<peers::Key> keys;
  for (const Access& access : trace.accesses) keys.push_back(access.window);
  peers::Optimum optimum(kCapacity, keys);
  return run_peer(trace, optimum, false);
}

template <typename T, typename... Arguments>
std::function<SimulatedTally(const Trace&)> peer(Arguments... arguments) {
  return [=](const Trace& trace) {
    T one(kCapacity, arguments...);
    return run_peer(trace, one, true);
  };
}

struct Contender {
  std::string_view name;
  std::function<SimulatedTally(const Trace&)> run;
};

std::vector<Contender> make_contenders() {
  return {{"penstock", run_ours},
          {"LRU", peer<peers::Lru>(true)},
          {"FIFO", peer<peers::Lru>(false)},
          {"random", peer<peers::Random>()},
          {"ARC", peer<peers::Arc>()},
          {"S3-FIFO", peer<peers::S3Fifo>()},
          {"LIRS", peer<peers::Lirs>()},
          {"optimum", run_optimum}};
}

// Of all bytes counted, how many were written into the cache.
double fills(const Trace& trace, const SimulatedTally& tally) {
  uint64_t bytes = 0;
  for (size_t i = trace.from; i < trace.accesses.size(); ++i) bytes += trace.accesses[i].bytes;
  return static_cast<double>(tally.fill_bytes) / static_cast<double>(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 2 || (argc == 2 && !json)) {
    fmt::print(stderr, "usage: cache_policies [--json]\n");
    return 2;
  }
  const std::vector<Contender> contenders = make_contenders();
  if (json) {
    fmt::print("[");
  } else {
    fmt::print("{:44}", "hit rate (fills), of bytes");
    for (const Contender& contender : contenders) fmt::print(" {:>12}", contender.name);
    fmt::print("\n");
  }
  std::string_view comma;
  for (const Trace& trace : make_traces()) {
    if (json) {
      fmt::print("{}\n {{\"name\": \"{}\", \"title\": \"{}\"", comma, trace.name, trace.title);
    } else {
      fmt::print("{:44}", trace.title);
    }
    comma = ",";
    for (const Contender& contender : contenders) {
      const SimulatedTally tally = contender.run(trace);
      if (json) {
        fmt::print(", \"{}\": {{\"hits\": {:.4f}, \"fills\": {:.4f}}}", contender.name,
                   tally.hit_rate(), fills(trace, tally));
      } else {
        fmt::print(" {:5.3f} ({:4.2f})", tally.hit_rate(), fills(trace, tally));
      }
      std::fflush(stdout);
    }
    fmt::print("{}", json ? "}" : "\n");
  }
  if (json) fmt::print("\n]\n");
  return 0;
}
