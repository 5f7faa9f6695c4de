// Puts or gets many objects of one size, so many at once, and prints the time as JSON: our side of
// bench/compare_s3.py.
//
//   store_driver put s3://bucket/prefix COUNT SIZE CONCURRENCY
//   store_driver get s3://bucket/prefix COUNT SIZE CONCURRENCY [SECONDS]   (over and over for so long)
//   store_driver presign s3://bucket/prefix COUNT SIZE CONCURRENCY     (prints URLs)
#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/s3.h"
#include "penstock/store.h"

namespace {

using namespace penstock;

struct Work {
  Work(store::ObjectStore& objects, bool puts, size_t objects_wanted, size_t object_bytes)
      : store(objects), put(puts), count(objects_wanted), size(object_bytes) {}

  store::ObjectStore& store;
  const bool put;
  const size_t count;
  const size_t size;
  std::vector<io::Buffer> buffers;
  double seconds = 0;  // Stop then, going over the objects again and again; 0: once over all.
  std::chrono::steady_clock::time_point start;
  std::atomic<size_t> next{0};
  std::atomic<size_t> running{0};
  std::atomic<bool> failed{false};
  std::promise<void> finished;
};

std::string key(size_t index) {
  return fmt::format("object-{:06}", index);
}

double elapsed(const Work& work) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - work.start).count();
}

void step(Work& work, size_t slot);

template <typename T>
void finish(Work& work, size_t slot, const Result<T>& result, bool whole) {
  if (!result.ok() || !whole) {
    fmt::print(stderr, "{}\n", result.ok() ? "a short answer" : result.error().to_string());
    work.failed = true;
  }
  step(work, slot);
}

void step(Work& work, size_t slot) {
  const size_t turn = work.next++;
  const size_t index = turn % work.count;
  if (work.failed || (work.seconds > 0 ? elapsed(work) >= work.seconds : turn >= work.count)) {
    if (--work.running == 0) work.finished.set_value();
    return;
  }
  const std::span<std::byte> bytes = work.buffers[slot].bytes();
  if (work.put) {
    work.store.async_put(key(index), bytes, {}, [&work, slot](Result<store::ObjectInfo> put) {
      finish(work, slot, put, put.ok() && put->size == work.size);
    });
  } else {
    work.store.async_get(key(index), 0, bytes, {}, [&work, slot](Result<store::GetResult> got) {
      finish(work, slot, got, got.ok() && got->bytes == work.size);
    });
  }
}

void fill(std::vector<io::Buffer>& buffers) {
  std::mt19937_64 random(1);
  for (io::Buffer& buffer : buffers) {
    for (size_t i = 0; i + 8 <= buffer.size(); i += 8) {
      const uint64_t word = random();
      std::memcpy(buffer.data() + i, &word, sizeof(word));
    }
  }
}

int run(Work& work, size_t concurrency) {
  work.start = std::chrono::steady_clock::now();
  work.running = concurrency;
  for (size_t slot = 0; slot < concurrency; ++slot) step(work, slot);
  work.finished.get_future().wait();
  const double seconds = elapsed(work);
  const size_t objects = work.next - concurrency;
  fmt::print("{{\"seconds\": {:.6f}, \"objects\": {}, \"bytes\": {}}}\n", seconds, objects,
             objects * work.size);
  return work.failed ? 1 : 0;
}

Result<int> presign(const std::string& address, size_t count) {
  const store::S3Options options = PENSTOCK_TRY(store::s3_options_from_environment());
  const size_t slash = address.find('/', 5);
  const std::string bucket = address.substr(5, slash - 5);
  const std::string prefix = slash == std::string::npos ? "" : address.substr(slash + 1) + "/";
  for (size_t i = 0; i < count; ++i) {
    fmt::print("{}\n", PENSTOCK_TRY(store::presign_get(bucket, prefix + key(i), options,
                                                       std::chrono::hours(1))));
  }
  return 0;
}

Result<int> drive(const std::string& verb, const std::string& address, size_t count, size_t size,
                  size_t concurrency, double seconds) {
  if (verb == "presign") return presign(address, count);
  const auto objects = PENSTOCK_TRY(store::open_store(address, {}));
  const auto memory = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = 4 * kGiB}));
  Work work(*objects, verb == "put", count, size);
  work.seconds = seconds;
  for (size_t i = 0; i < concurrency; ++i) work.buffers.push_back(PENSTOCK_TRY(memory->take(size)));
  fill(work.buffers);
  return run(work, concurrency);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    fmt::print(stderr,
               "usage: store_driver put|get|presign ADDRESS COUNT SIZE CONCURRENCY [SECONDS]\n");
    return 2;
  }
  const Result<int> code = drive(
      argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10),
      std::strtoull(argv[5], nullptr, 10), argc > 6 ? std::strtod(argv[6], nullptr) : 0);
  if (!code.ok()) fmt::print(stderr, "store_driver: {}\n", code.error().to_string());
  return code.ok() ? *code : 1;
}
