// How fast the metadata of volumes is: creates, lookups, writes of one extent, commits, clones.
//
//   build/release/bench/meta_bench --files 200000 --path /tmp/volume.db
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <random>

#include "penstock/io.h"
#include "penstock/meta.h"

namespace penstock::meta {
namespace {

using Clock = std::chrono::steady_clock;

class Timer {
 public:
  explicit Timer(const char* what, uint64_t count) : what_(what), count_(count) {}
  ~Timer() {
    const std::chrono::duration<double> time = Clock::now() - start_;
    fmt::print("{:<28} {:>9.0f} /s   {:>7.2f} us each\n", what_,
               static_cast<double>(count_) / time.count(),
               time.count() * 1e6 / static_cast<double>(count_));
  }

 private:
  const char* what_;
  const uint64_t count_;
  const Clock::time_point start_ = Clock::now();
};

constexpr uint64_t kDirectories = 100;

Result<void> run(io::FileSystem& fs, const std::string& path, uint64_t files) {
  SqliteOptions options;
  options.create = Settings();
  options.create->name = "bench";
  const auto database = PENSTOCK_TRY(open_sqlite(fs, path, options));
  const auto names = PENSTOCK_TRY(database->open("bench"));
  std::vector<Ino> directories;
  for (uint64_t i = 0; i < kDirectories; ++i) {
    const Inode made =
        PENSTOCK_TRY(names->create(kRoot, fmt::format("class-{}", i), {.mode = S_IFDIR}, 1));
    directories.push_back(made.ino);
  }
  const ObjectId object{database->session(), 1};
  PENSTOCK_TRY(database->add_object({.id = object, .state = ObjectState::kStored, .bytes = kTiB}));
  const auto name_of = [](uint64_t i) { return fmt::format("image-{:08}.jpeg", i); };
  std::vector<Ino> inodes;
  {
    Timer timer("create", files);
    for (uint64_t i = 0; i < files; ++i) {
      const Inode made = PENSTOCK_TRY(names->create(directories[i * kDirectories / files],
                                                    name_of(i), {.mode = S_IFREG | 0644}, 1));
      inodes.push_back(made.ino);
      if (i % 10'000 == 9'999) PENSTOCK_TRY(database->commit({}));
    }
  }
  {
    Timer timer("write of one extent", files);
    for (uint64_t i = 0; i < files; ++i) {
      const Place place{.object = object, .offset = i * 100'000, .stored = 100'000, .raw = 100'000};
      PENSTOCK_TRY(names->write(inodes[i], 0, {&place, 1}, 2));
      if (i % 10'000 == 9'999) PENSTOCK_TRY(database->commit({}));
    }
  }
  PENSTOCK_TRY(database->commit({}));
  std::mt19937_64 random(1);
  {
    Timer timer("lookup, in order", files);
    for (uint64_t i = 0; i < files; ++i)
      PENSTOCK_TRY(names->lookup(directories[i * kDirectories / files], name_of(i)));
  }
  {
    Timer timer("lookup, at random", files);
    for (uint64_t n = 0; n < files; ++n) {
      const uint64_t i = random() % files;
      PENSTOCK_TRY(names->lookup(directories[i * kDirectories / files], name_of(i)));
    }
  }
  {
    const auto past = PENSTOCK_TRY(names->at(database->last_version()));
    Timer timer("lookup in the past", files);
    for (uint64_t n = 0; n < files; ++n) {
      const uint64_t i = random() % files;
      PENSTOCK_TRY(past->lookup(directories[i * kDirectories / files], name_of(i)));
    }
  }
  {
    Timer timer("extents of a file", files);
    for (uint64_t n = 0; n < files; ++n)
      PENSTOCK_TRY(names->extents(inodes[random() % files], 0, kMiB));
  }
  {
    Timer timer("listed entries", files);
    for (const Ino directory : directories) {
      for (uint64_t cookie = 0;;) {
        const auto page = PENSTOCK_TRY(names->list(directory, cookie, 500));
        if (page.empty()) break;
        cookie = page.back().cookie;
      }
    }
  }
  {
    Timer timer("rows cloned", 3 * files);
    Settings settings;
    settings.name = "clone";
    PENSTOCK_TRY(database->clone("bench", kLive, settings, 3));
    PENSTOCK_TRY(database->commit({}));
  }
  {
    Timer timer("unlink and forget", files);
    for (uint64_t i = 0; i < files; ++i) {
      PENSTOCK_TRY(names->unlink(directories[i * kDirectories / files], name_of(i), 4));
      PENSTOCK_TRY(names->forget(inodes[i]));
      if (i % 10'000 == 9'999) PENSTOCK_TRY(database->commit({}));
    }
  }
  {
    uint64_t rows = 0;
    const Clock::time_point start = Clock::now();
    while (true) {
      const Purged purged = PENSTOCK_TRY(database->purge(5, 10'000));
      rows += purged.rows + purged.chunks;
      PENSTOCK_TRY(database->commit({}));
      if (!purged.more) break;
    }
    const std::chrono::duration<double> time = Clock::now() - start;
    fmt::print("{:<28} {:>9.0f} /s\n", "rows purged", static_cast<double>(rows) / time.count());
  }
  {
    Timer timer("small commits", 200);
    for (uint64_t i = 0; i < 200; ++i) {
      PENSTOCK_TRY(names->create(kRoot, fmt::format("small-{}", i), {.mode = S_IFREG}, 1));
      PENSTOCK_TRY(database->commit({}));
    }
  }
  return {};
}

}  // namespace
}  // namespace penstock::meta

int main(int argc, char** argv) {
  CLI::App app("Measures the metadata of volumes.");
  uint64_t files = 200'000;
  std::string path = "/tmp/penstock-meta-bench.db";
  app.add_option("--files", files, "How many files");
  app.add_option("--path", path, "Of the database, which is made and removed");
  CLI11_PARSE(app, argc, argv);
  const auto fs = penstock::io::process_file_system();
  if (!fs.ok()) return 1;
  const auto done = penstock::meta::run(**fs, path, files);
  for (const char* suffix : {"", "-wal"}) (void)(*fs)->remove(path + suffix);
  if (!done.ok()) fmt::print(stderr, "{}\n", done.error().to_string());
  return done.ok() ? 0 : 1;
}
