// Reading files, a store, or a store through the cache, with the same requests.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cache_arguments.h"
#include "penstock/buffer.h"
#include "penstock/frame.h"
#include "penstock/io.h"
#include "read_loop.h"

namespace penstock::bench {

inline constexpr uint64_t kBlock = 4096;  // What direct reads are widened to.

// Something to read from: how, and how large its objects are.
struct Target {
  std::vector<uint64_t> sizes;
  ReadLoop::Start start;
};

struct RawFiles {
  std::vector<std::unique_ptr<io::File>> files;
  std::vector<uint64_t> sizes;
};

inline Result<RawFiles> open_raw(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  io::LocalFileSystem* fs = PENSTOCK_TRY(io::process_file_system());
  RawFiles raw;
  for (const std::string& path : paths) {
    raw.files.push_back(PENSTOCK_TRY(fs->open(path, {.mode = io::CacheMode::kDirect})));
    const io::FileInfo info = PENSTOCK_TRY(raw.files.back()->stat());
    raw.sizes.push_back(info.size);
  }
  if (paths.empty()) return make_error(ErrorCode::kNotFound, "no files below " + directory);
  return raw;
}

// With `look`, one pass over the bytes, as whoever checks them makes; with `copy` also one to where
// nobody else writes, as whoever gives up a drive that hangs makes: it has the memory that was read
// into. The second half of the buffer stands for that.
inline void start_raw(const RawFiles& raw, bool look, bool copy, const Request& request,
                      const io::Buffer& memory, ReadLoop::Done done) {
  const uint64_t begin = request.offset / kBlock * kBlock;
  const uint64_t end = (request.offset + request.length + kBlock - 1) / kBlock * kBlock;
  const size_t before = request.offset - begin;
  raw.files[request.object]->submit(io::IoRequest::read(
      begin, memory.slice(0, end - begin),
      [&request, &memory, look, copy, before, done = std::move(done)](Result<size_t> got) {
        if (!got.ok()) return done(got.error());
        const size_t wanted = std::min(request.length, *got - std::min(*got, before));
        const std::span<const std::byte> bytes = memory.bytes().subspan(before, wanted);
        static std::atomic<uint64_t> seen;  // Or the pass would be left out.
        if (look || copy) seen.fetch_xor(codec::hash_bytes(bytes), std::memory_order_relaxed);
        if (!copy) return done(bytes);
        const std::span<std::byte> kept = memory.bytes().subspan(memory.bytes().size() / 2);
        std::memcpy(kept.data(), bytes.data(), wanted);
        done(std::span<const std::byte>(kept.first(wanted)));
      }));
}

// The version is named, as readers with a listing do: a cache then need not ask the source.
inline void start_get(store::ObjectStore& store, const store::ObjectInfo& info,
                      const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
  store::GetOptions options;
  options.if_match = info.etag;
  options.size = info.size;
  const std::span<std::byte> into = memory.bytes().first(request.length);
  store.async_get(info.key, request.offset, into, std::move(options),
                  [into, done = std::move(done)](Result<store::GetResult> got) {
                    if (!got.ok()) return done(got.error());
                    done(std::span<const std::byte>(into.first(got->bytes)));
                  });
}

// What any cache has to do at least: each read is written to a file before its memory is used again.
inline void start_tee(store::ObjectStore& store, const store::ObjectInfo& info, io::File& file,
                      const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
  start_get(
      store, info, request, memory,
      [&file, &request, &memory, done = std::move(done)](Result<std::span<const std::byte>> got) {
        if (!got.ok()) return done(got);
        const uint64_t padded = (request.length + kBlock - 1) / kBlock * kBlock;
        file.submit(io::IoRequest::write(request.offset, memory.slice(0, padded),
                                         [got, done](Result<size_t> written) {
                                           if (!written.ok()) return done(written.error());
                                           done(got);
                                         }));
      });
}

inline std::vector<uint64_t> sizes_of(const std::vector<store::ObjectInfo>& objects) {
  std::vector<uint64_t> sizes;
  for (const store::ObjectInfo& info : objects) sizes.push_back(info.size);
  return sizes;
}

inline Result<std::vector<io::Buffer>> take_buffers(size_t count, size_t block_bytes, bool twice) {
  io::LocalFileSystem* fs = PENSTOCK_TRY(io::process_file_system());
  const auto memory = PENSTOCK_TRY(
      io::BufferProvider::create({.budget_bytes = 4 * kGiB, .registrar = fs->registrar()}));
  std::vector<io::Buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    buffers.push_back(PENSTOCK_TRY(memory->take((block_bytes + 2 * kBlock) * (twice ? 2 : 1))));
  }
  return buffers;
}

inline Result<PatternOptions> pattern_options(const Arguments& arguments) {
  PatternOptions options;
  options.pattern = arguments.pattern;
  options.block_bytes = PENSTOCK_TRY(parse_size(arguments.block));
  options.total_bytes = PENSTOCK_TRY(parse_size(arguments.bytes));
  options.seed = arguments.seed;
  return options;
}

inline void print_epoch(const Measured& measured, const cache::CacheStats* before,
                        const cache::CacheStats* after, bool last) {
  fmt::print("{{\"seconds\": {:.6f}, \"cpu_seconds\": {:.6f}, \"reads\": {}, \"bytes\": {}",
             measured.seconds, measured.cpu_seconds, measured.reads, measured.bytes);
  if (after != nullptr) {
    fmt::print(", \"source_bytes\": {}, \"miss_bytes\": {}, \"bad\": {}",
               after->source_bytes - before->source_bytes, after->miss_bytes - before->miss_bytes,
               after->verification_failures - before->verification_failures);
  }
  fmt::print("}}{}", last ? "" : ", ");
}

// What was filled when the last fill was done, and how long that took after the last read.
inline void print_end(cache::Cache& cache, const cache::CacheStats& begun) {
  const auto begin = std::chrono::steady_clock::now();
  cache.drain();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  const cache::CacheStats stats = cache.stats();
  fmt::print(", \"drain_seconds\": {:.6f}, \"kept_bytes\": {}, \"fills_skipped\": {}",
             taken.count(), stats.fill_bytes - begun.fill_bytes,
             stats.fills_skipped - begun.fills_skipped);
}

// So that memory was used before, and connections are there, as in a process that has run for a while.
inline Result<void> read_before(const Arguments& arguments, const std::vector<io::Buffer>& buffers,
                                const std::shared_ptr<cache::Cache>& cache) {
  auto store = PENSTOCK_TRY(store::open_store(arguments.before, {.read_only = true}));
  if (cache != nullptr) store = cache::make_cached_store(std::move(store), cache);
  const std::vector<store::ObjectInfo> objects = PENSTOCK_TRY(list_all(*store));
  const std::vector<Request> requests =
      make_requests(sizes_of(objects), PENSTOCK_TRY(pattern_options(arguments)));
  ReadLoop loop(
      requests, buffers,
      [&](const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
        start_get(*store, objects[request.object], request, memory, std::move(done));
      },
      arguments.verify);
  PENSTOCK_TRY(loop.run());
  if (cache != nullptr) cache->drain();
  return {};
}

inline Result<void> read_epochs(const Arguments& arguments, const Target& target,
                                const std::shared_ptr<cache::Cache>& cache) {
  PatternOptions options = PENSTOCK_TRY(pattern_options(arguments));
  const std::vector<io::Buffer> buffers =
      PENSTOCK_TRY(take_buffers(arguments.depth, options.block_bytes, arguments.copy));
  if (!arguments.before.empty()) PENSTOCK_TRY(read_before(arguments, buffers, cache));
  const cache::CacheStats begun = cache != nullptr ? cache->stats() : cache::CacheStats{};
  fmt::print("{{\"epochs\": [");
  for (uint32_t epoch = 0; epoch < arguments.epochs; ++epoch, ++options.seed) {
    const std::vector<Request> requests = make_requests(target.sizes, options);
    const cache::CacheStats before = cache != nullptr ? cache->stats() : cache::CacheStats{};
    ReadLoop loop(requests, buffers, target.start, arguments.verify);
    const Measured measured = PENSTOCK_TRY(loop.run());
    const cache::CacheStats after = cache != nullptr ? cache->stats() : cache::CacheStats{};
    print_epoch(measured, cache != nullptr ? &before : nullptr, cache != nullptr ? &after : nullptr,
                epoch + 1 == arguments.epochs);
  }
  fmt::print("]");
  if (cache != nullptr) print_end(*cache, begun);
  fmt::print("}}\n");
  return {};
}

inline Result<void> read_raw(const Arguments& arguments) {
  const RawFiles raw = PENSTOCK_TRY(open_raw(arguments.address));
  const Target target{
      raw.sizes, [&](const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
        start_raw(raw, arguments.look, arguments.copy, request, memory, std::move(done));
      }};
  return read_epochs(arguments, target, nullptr);
}

inline Result<void> read_store(const Arguments& arguments, store::ObjectStore& store,
                               const std::shared_ptr<cache::Cache>& cache) {
  const std::vector<store::ObjectInfo> objects = PENSTOCK_TRY(list_all(store));
  const Target target{sizes_of(objects),
                      [&](const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
                        start_get(store, objects[request.object], request, memory, std::move(done));
                      }};
  return read_epochs(arguments, target, cache);
}

inline Result<void> read_tee(const Arguments& arguments) {
  const auto store = PENSTOCK_TRY(store::open_store(arguments.address, {.read_only = true}));
  const std::vector<store::ObjectInfo> objects = PENSTOCK_TRY(list_all(*store));
  io::LocalFileSystem* fs = PENSTOCK_TRY(io::process_file_system());
  const std::unique_ptr<io::File> file =
      PENSTOCK_TRY(fs->open(arguments.tee, {.access = io::Access::kWrite,
                                            .create = io::Create::kMustNotExist,
                                            .mode = io::CacheMode::kDirect}));
  PENSTOCK_TRY(file->allocate(0, objects[0].size));
  const Target target{{objects[0].size},
                      [&](const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
                        start_tee(*store, objects[0], *file, request, memory, std::move(done));
                      }};
  return read_epochs(arguments, target, nullptr);
}

inline Result<void> read(const Arguments& arguments) {
  if (arguments.raw) return read_raw(arguments);
  if (!arguments.tee.empty()) return read_tee(arguments);
  if (arguments.directories.empty()) {
    const auto store = PENSTOCK_TRY(store::open_store(arguments.address, {.read_only = true}));
    return read_store(arguments, *store, nullptr);
  }
  const auto store = PENSTOCK_TRY(open_cached(arguments));
  return read_store(arguments, *store, store->cache());
}

}  // namespace penstock::bench
