// Reads many pieces of many objects, so many at once, and says how long that took: what the modes of
// cache_driver have in common.
#pragma once

#include <fmt/core.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/result.h"

namespace penstock::bench {

struct Request {
  size_t object = 0;
  uint64_t offset = 0;
  size_t length = 0;
};

// The bytes of every object follow from its number and their place, so that any piece can be checked.
inline void make_content(uint64_t object, uint64_t offset, std::span<std::byte> into) {
  for (size_t done = 0; done < into.size();) {
    uint64_t word = (object << 40) + (offset + done) / 8;
    word = (word ^ (word >> 31)) * 0x9e3779b97f4a7c15U;
    word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9U;
    word ^= word >> 32;
    const size_t skipped = (offset + done) % 8;
    const size_t length = std::min(8 - skipped, into.size() - done);
    std::memcpy(into.data() + done, reinterpret_cast<const std::byte*>(&word) + skipped, length);
    done += length;
  }
}

enum class Pattern : uint8_t {
  kSequential,       // Every block of every object, in order.
  kShuffledObjects,  // The objects in random order, each from front to end.
  kShuffled,         // Every block once, in random order.
  kRandom,           // Blocks at any offsets, aligned to nothing.
};

struct PatternOptions {
  Pattern pattern = Pattern::kSequential;
  size_t block_bytes = 0;
  uint64_t total_bytes = 0;  // Of kRandom.
  uint64_t seed = 1;
};

inline std::vector<Request> random_requests(const std::vector<uint64_t>& sizes,
                                            const PatternOptions& options,
                                            std::mt19937_64& random) {
  std::vector<Request> requests;
  for (uint64_t bytes = 0; bytes < options.total_bytes; bytes += options.block_bytes) {
    const size_t object = random() % sizes.size();
    const uint64_t length = std::min<uint64_t>(options.block_bytes, sizes[object]);
    requests.push_back({object, random() % (sizes[object] - length + 1), length});
  }
  return requests;
}

inline std::vector<Request> make_requests(const std::vector<uint64_t>& sizes,
                                          const PatternOptions& options) {
  std::mt19937_64 random(options.seed);
  if (options.pattern == Pattern::kRandom) return random_requests(sizes, options, random);
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options.pattern == Pattern::kShuffledObjects)
    std::shuffle(order.begin(), order.end(), random);
  std::vector<Request> requests;
  for (const size_t object : order) {
    for (uint64_t at = 0; at < sizes[object]; at += options.block_bytes) {
      requests.push_back({object, at, std::min<uint64_t>(options.block_bytes, sizes[object] - at)});
    }
  }
  if (options.pattern == Pattern::kShuffled) {
    std::shuffle(requests.begin(), requests.end(), random);
  }
  return requests;
}

// Of the whole process, threads in the kernel included.
inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measured {
  double seconds = 0;
  double cpu_seconds = 0;
  uint64_t reads = 0;
  uint64_t bytes = 0;
};

class ReadLoop {
 public:
  // With the bytes asked for, where they lie now.
  using Done = std::function<void(Result<std::span<const std::byte>>)>;
  // Starts a read; `memory` has room for the request, widened to whole blocks.
  using Start = std::function<void(const Request&, const io::Buffer& memory, Done)>;

  // As many at once as there are buffers. `verify` compares with make_content().
  ReadLoop(const std::vector<Request>& requests, const std::vector<io::Buffer>& buffers,
           Start start, bool verify)
      : requests_(requests), buffers_(buffers), start_(std::move(start)), verify_(verify) {}

  Result<Measured> run() {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_before = cpu_seconds();
    running_ = buffers_.size();
    for (size_t slot = 0; slot < buffers_.size(); ++slot) step(slot);
    finished_.get_future().wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (error_) return *error_;
    return Measured{.seconds = taken.count(),
                    .cpu_seconds = cpu_seconds() - cpu_before,
                    .reads = requests_.size(),
                    .bytes = bytes_};
  }

 private:
  void step(size_t slot) {
    const size_t turn = next_++;
    if (failed_ || turn >= requests_.size()) {
      if (--running_ == 0) finished_.set_value();
      return;
    }
    const Request& request = requests_[turn];
    start_(request, buffers_[slot], [this, slot, &request](Result<std::span<const std::byte>> got) {
      check(request, got);
      step(slot);
    });
  }

  void check(const Request& request, const Result<std::span<const std::byte>>& got) {
    if (!got.ok()) return fail(got.error());
    if (got->size() != request.length) return fail(make_error(ErrorCode::kIo, "a short answer"));
    bytes_ += request.length;
    if (!verify_) return;
    std::vector<std::byte> expected(request.length);
    make_content(request.object, request.offset, expected);
    if (std::memcmp(expected.data(), got->data(), expected.size()) != 0) {
      fail(make_error(ErrorCode::kCorrupt, fmt::format("wrong bytes at {} of object {}",
                                                       request.offset, request.object)));
    }
  }

  void fail(Error error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_ = true;
  }

  const std::vector<Request>& requests_;
  const std::vector<io::Buffer>& buffers_;
  const Start start_;
  const bool verify_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> running_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> error_;  // Under the mutex.
  std::promise<void> finished_;
};

}  // namespace penstock::bench
