// What a loader could do at best: threads that only decode, or only copy and widen, data that lies in
// memory, in random order, into batches that are used again and again. Prints JSON.
//
//   bare_loops images SHARD.tar... [--threads 2] [--batch 64] [--seconds 1]
//   bare_loops tokens CORPUS.bin [--seq 4096] ...
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "loader/token_dataset.h"
#include "penstock/buffer.h"
#include "penstock/decode.h"

namespace {

using namespace penstock;
using Bytes = std::span<const std::byte>;

constexpr size_t kTarBlock = 512;
// Being filled by each thread, and as many with the consumer.
constexpr size_t kBatchesPerThread = 2;

struct Settings {
  std::vector<std::string> paths;
  uint32_t threads = 2;
  uint32_t batch = 64;
  uint32_t seq = 4096;
  double seconds = 1;
  bool hand_over = false;  // Batches to a consumer, in order, who gives them back.
};

// Fills one slot with one sample; each thread has its own.
using Work = std::function<Result<void>(size_t sample, std::span<std::byte> slot)>;

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> content(file ? static_cast<size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!file) return make_error(ErrorCode::kIo, fmt::format("cannot read {}", path));
  return content;
}

// The .jpg files of a plain ustar archive.
std::vector<Bytes> jpegs_of(Bytes tar) {
  std::vector<Bytes> found;
  for (size_t at = 0; at + kTarBlock <= tar.size() && tar[at] != std::byte{0};) {
    const auto* header = reinterpret_cast<const char*>(tar.data() + at);
    uint64_t size = 0;
    std::from_chars(header + 124, header + 135, size, 8);
    const std::string_view name(header, strnlen(header, 100));
    at += kTarBlock;
    if (name.ends_with(".jpg")) found.push_back(tar.subspan(at, size));
    at += (size + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  return found;
}

// What any loader has beside the work: batches that wait for a consumer, who takes them in order.
class Handing {
 public:
  explicit Handing(size_t batches) : done_(batches) {
    for (size_t i = 0; i < batches; ++i) free_.push_back(i);
  }
  // A batch to fill, which is number `turn` of the pass.
  std::pair<size_t, size_t> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !free_.empty(); });
    const size_t batch = free_.back();
    free_.pop_back();
    line_.push_back(batch);
    return {batch, turns_++};
  }
  void give(size_t batch) {
    const std::lock_guard lock(mutex_);
    done_[batch] = true;
    if (line_.front() == batch) filled_.notify_one();
  }
  void consume() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !line_.empty() && done_[line_.front()]; });
    done_[line_.front()] = false;
    free_.push_back(line_.front());
    line_.pop_front();
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable filled_;
  std::vector<size_t> free_;
  std::deque<size_t> line_;
  std::vector<bool> done_;
  size_t turns_ = 0;
};

Result<void> pass_handing_over(const Settings& settings, const std::vector<size_t>& order,
                               std::vector<Work>& work, std::span<const io::Buffer> batches,
                               size_t slot_bytes) {
  Handing handing(batches.size());
  const size_t turns = (order.size() + settings.batch - 1) / settings.batch;
  std::vector<Result<void>> results(settings.threads);
  std::atomic<size_t> left = turns;
  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < settings.threads; ++thread) {
    threads.emplace_back([&, thread] {
      while (left.fetch_sub(1) - 1 < turns) {
        const auto [batch, turn] = handing.take();
        const size_t begin = turn * settings.batch;
        const size_t end = std::min(order.size(), begin + settings.batch);
        for (size_t i = begin; i < end && results[thread].ok(); ++i) {
          const auto slot = batches[batch].bytes().subspan((i - begin) * slot_bytes, slot_bytes);
          results[thread] = work[thread](order[i], slot);
        }
        handing.give(batch);
      }
    });
  }
  for (size_t i = 0; i < turns; ++i) handing.consume();
  threads.clear();
  for (auto& result : results) PENSTOCK_TRY(std::move(result));
  return {};
}

// One pass over all samples, by all threads; each takes a batch at a time.
Result<void> pass(const Settings& settings, const std::vector<size_t>& order,
                  std::vector<Work>& work, std::span<const io::Buffer> batches, size_t slot_bytes) {
  std::atomic<size_t> next = 0;
  std::vector<Result<void>> results(settings.threads);
  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < settings.threads; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t turn = 0; results[thread].ok(); ++turn) {
        const size_t begin = next.fetch_add(settings.batch);
        if (begin >= order.size()) return;
        const size_t end = std::min(order.size(), begin + settings.batch);
        const auto batch = batches[thread + settings.threads * (turn % kBatchesPerThread)].bytes();
        for (size_t i = begin; i < end && results[thread].ok(); ++i) {
          results[thread] =
              work[thread](order[i], batch.subspan((i - begin) * slot_bytes, slot_bytes));
        }
      }
    });
  }
  threads.clear();
  for (auto& result : results) PENSTOCK_TRY(std::move(result));
  return {};
}

Result<void> measure(const Settings& settings, size_t samples, std::vector<Work> work,
                     size_t slot_bytes) {
  const size_t count = settings.threads * kBatchesPerThread;
  io::BufferOptions options;
  options.budget_bytes = count * (settings.batch * slot_bytes + 2 * kMiB);
  const auto provider = PENSTOCK_TRY(io::BufferProvider::create(options));
  std::vector<io::Buffer> batches;
  for (size_t i = 0; i < count; ++i)
    batches.push_back(PENSTOCK_TRY(provider->take(settings.batch * slot_bytes)));

  std::vector<size_t> order(samples);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 generator(1);
  double seconds = 0;
  size_t done = 0;
  for (bool warm = false; seconds < settings.seconds; warm = true) {
    std::shuffle(order.begin(), order.end(), generator);
    const auto start = std::chrono::steady_clock::now();
    PENSTOCK_TRY(settings.hand_over ? pass_handing_over(settings, order, work, batches, slot_bytes)
                                    : pass(settings, order, work, batches, slot_bytes));
    if (!warm) continue;
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    done += samples;
  }
  fmt::print("{{\"samples\": {}, \"seconds\": {}}}\n", done, seconds);
  return {};
}

Result<void> run_images(const Settings& settings) {
  std::vector<std::vector<std::byte>> shards;
  std::vector<Bytes> jpegs;
  for (const std::string& path : settings.paths) {
    shards.push_back(PENSTOCK_TRY(read_file(path)));
    for (const Bytes jpeg : jpegs_of(shards.back())) jpegs.push_back(jpeg);
  }
  decode::ImageSpec spec;
  spec.crop = decode::Crop::kRandom;
  spec.mean = {0.485F, 0.456F, 0.406F};
  spec.std = {0.229F, 0.224F, 0.225F};
  spec.dtype = decode::DType::kFloat32;
  PENSTOCK_TRY(spec.check());
  std::vector<Work> work;
  for (uint32_t thread = 0; thread < settings.threads; ++thread) {
    auto decoder = std::make_shared<decode::ImageDecoder>();
    auto random = std::make_shared<std::mt19937_64>(thread);
    work.emplace_back([&jpegs, spec, decoder, random](size_t sample, std::span<std::byte> slot) {
      return decoder->decode(jpegs[sample], spec, (*random)(), slot);
    });
  }
  return measure(settings, jpegs.size(), std::move(work), spec.output_bytes());
}

Result<void> run_tokens(const Settings& settings) {
  const std::vector<std::byte> corpus = PENSTOCK_TRY(read_file(settings.paths.front()));
  const size_t sample_bytes = (settings.seq + 1) * sizeof(uint16_t);
  const size_t slot_bytes = (settings.seq + 1) * sizeof(int64_t);
  std::vector<Work> work;
  for (uint32_t thread = 0; thread < settings.threads; ++thread) {
    auto copy = std::make_shared<std::vector<std::byte>>(sample_bytes);
    work.emplace_back([&, copy](size_t sample, std::span<std::byte> slot) -> Result<void> {
      const std::byte* from = corpus.data() + sample * settings.seq * sizeof(uint16_t);
      std::memcpy(copy->data(), from, sample_bytes);
      auto* out = reinterpret_cast<int64_t*>(slot.data());
      return loader::widen_tokens(data::TokenType::kUint16, *copy,
                                  std::span(out, settings.seq + 1));
    });
  }
  const size_t tokens = corpus.size() / sizeof(uint16_t);
  return measure(settings, (tokens - 1) / settings.seq, std::move(work), slot_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Decoding, or widening tokens, in memory: as fast as threads can");
  app.require_subcommand(1);
  Settings settings;
  CLI::App* images = app.add_subcommand("images");
  CLI::App* tokens = app.add_subcommand("tokens");
  for (CLI::App* command : {images, tokens}) {
    command->add_option("paths", settings.paths)->required();
    command->add_option("--threads", settings.threads)->check(CLI::Range(1, 1024));
    command->add_option("--batch", settings.batch)->check(CLI::Range(1, 65536));
    command->add_option("--seconds", settings.seconds)->check(CLI::PositiveNumber);
    command->add_flag("--hand-over", settings.hand_over, "Batches to a consumer, in order");
  }
  tokens->add_option("--seq", settings.seq)->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  const Result<void> done = *images ? run_images(settings) : run_tokens(settings);
  if (done.ok()) return 0;
  fmt::print(stderr, "bare_loops: {}\n", done.error().to_string());
  return 1;
}
