// Our side of bench/compare_cache.py: makes objects, stages them into a cache, and reads them with and
// without it. Prints JSON.
//
//   cache_driver make ADDRESS --objects 4 --bytes 1GiB         objects of known content
//   cache_driver stage ADDRESS --cache DIR                     all of it onto the cache's drives
//   cache_driver read DIR --raw                                direct reads of the files below DIR
//   cache_driver read ADDRESS                                  from the store alone
//   cache_driver read ADDRESS --cache DIR                      through the cache
//   cache_driver entries DIR --count 1000000                   adds files that look like entries
//   cache_driver open ADDRESS --cache DIR --entries 1000000    how long until it serves, what it takes
//
// A read at unaligned offsets with --raw transfers the 4 KiB blocks around what it wants, straight
// into memory: no direct read of those bytes is cheaper.
#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cache_arguments.h"
#include "cache_open.h"
#include "cache_reads.h"
#include "read_loop.h"

namespace penstock::bench {
namespace {

Result<void> make_object(store::ObjectStore& store, size_t index, uint64_t bytes) {
  const auto upload = PENSTOCK_TRY(store.start_upload(fmt::format("object-{:06}", index), {}));
  std::vector<std::byte> piece(std::min<uint64_t>(bytes, 4 * kMiB));
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    const std::span<std::byte> part =
        std::span(piece).first(std::min<uint64_t>(piece.size(), bytes - at));
    make_content(index, at, part);
    PENSTOCK_TRY(upload->write(part));
  }
  PENSTOCK_TRY(upload->finish());
  return {};
}

Result<void> make(const Arguments& arguments) {
  const auto store = PENSTOCK_TRY(store::open_store(arguments.address, {}));
  const uint64_t bytes = PENSTOCK_TRY(parse_size(arguments.bytes));
  for (size_t i = 0; i < arguments.objects; ++i) PENSTOCK_TRY(make_object(*store, i, bytes));
  return store->flush();
}

Result<uint64_t> stage_object(cache::CachedStore& store, const store::ObjectInfo& info) {
  std::promise<Result<uint64_t>> staged;
  store.async_stage({info.key, info.etag, info.size, 0, info.size}, /*verify=*/false, {},
                    [&](Result<uint64_t> bytes) { staged.set_value(std::move(bytes)); });
  return staged.get_future().get();
}

// Room is given out in small portions, so an answer that there is none need not be the last.
Result<void> stage(const Arguments& arguments) {
  const auto store = PENSTOCK_TRY(open_cached(arguments));
  const std::vector<store::ObjectInfo> objects = PENSTOCK_TRY(list_all(*store));
  const Deadline deadline = deadline_in(std::chrono::minutes(5));
  for (const store::ObjectInfo& info : objects) {
    Result<uint64_t> staged = stage_object(*store, info);
    while (!staged.ok() && staged.error().retryable && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      staged = stage_object(*store, info);
    }
    if (!staged.ok()) return staged.error();
  }
  store->cache()->drain();
  return {};
}

// Raw reads keep every file open.
void allow_many_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void add_cache_options(CLI::App& command, Arguments& arguments) {
  command.add_option("--cache", arguments.directories, "a directory of the cache; may be repeated");
  command.add_option("--quota", arguments.quota);
  command.add_option("--memory", arguments.memory);
  command.add_flag("--buffered", arguments.buffered, "the cache's files through the page cache");
}

void add_read_options(CLI::App& command, Arguments& arguments) {
  const std::map<std::string, Pattern> patterns = {
      {"sequential", Pattern::kSequential},
      {"shuffled-objects", Pattern::kShuffledObjects},
      {"shuffled", Pattern::kShuffled},
      {"random", Pattern::kRandom},
  };
  command.add_option("--pattern", arguments.pattern)->transform(CLI::CheckedTransformer(patterns));
  command.add_option("--block", arguments.block, "bytes of a read");
  command.add_option("--depth", arguments.depth, "reads at once")->check(CLI::Range(1, 1024));
  command.add_option("--bytes", arguments.bytes, "how much to read at random");
  command.add_option("--seed", arguments.seed);
  command.add_flag("--verify", arguments.verify, "compare with what `make` wrote");
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock;
  using namespace penstock::bench;
  CLI::App app("Reads with and without the cache, and says how long it took.");
  app.require_subcommand(1);
  Arguments arguments;
  const auto add = [&](const char* name, const char* text) {
    CLI::App* command = app.add_subcommand(name, text);
    command->add_option("address", arguments.address)->required();
    return command;
  };
  CLI::App* making = add("make", "objects of known content");
  making->add_option("--objects", arguments.objects);
  making->add_option("--bytes", arguments.bytes, "of each");
  CLI::App* staging = add("stage", "all objects onto the cache's drives");
  add_cache_options(*staging, arguments);
  CLI::App* reading = add("read", "files, a store, or a store through a cache");
  reading->add_flag("--raw", arguments.raw, "the files below a directory, directly");
  reading->add_flag("--look", arguments.look, "with --raw: checksum what was read");
  reading->add_flag("--copy", arguments.copy, "with --raw: checksum and copy what was read");
  reading->add_option("--tee", arguments.tee,
                      "without a cache: write what was read to this file, directly");
  reading->add_option("--epochs", arguments.epochs);
  reading->add_option("--before", arguments.before,
                      "read all of this first, the same way, and do not count it");
  add_read_options(*reading, arguments);
  add_cache_options(*reading, arguments);
  CLI::App* adding = add("entries", "files that look like entries, into a cache directory");
  adding->add_option("--count", arguments.count)->required();
  adding->add_option("--seed", arguments.seed);
  CLI::App* opening = add("open", "a cache of many entries");
  opening->add_option("--entries", arguments.count, "to wait for until they are counted");
  add_read_options(*opening, arguments);
  add_cache_options(*opening, arguments);
  CLI11_PARSE(app, argc, argv);

  allow_many_files();
  const auto chosen = [&] {
    if (making->parsed()) return make(arguments);
    if (staging->parsed()) return stage(arguments);
    if (reading->parsed()) return read(arguments);
    if (adding->parsed()) return add_entries(arguments);
    return measure_open(arguments);
  };
  const Result<void> outcome = chosen();
  if (!outcome.ok()) fmt::print(stderr, "cache_driver: {}\n", outcome.error().to_string());
  return outcome.ok() ? 0 : 1;
}
