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

constexpr uint64_t kPerCommit = 10'000;

std::string name_of(uint64_t file) {
  return fmt::format("image-{:08}.jpeg", file);
}

struct Size {
  uint64_t files = 200'000;
  uint64_t directories = 100;
};

class Bench {
 public:
  Bench(std::unique_ptr<Database> database, std::unique_ptr<Namespace> names, const Size& size)
      : database_(std::move(database)),
        names_(std::move(names)),
        files_(size.files),
        count_of_directories_(size.directories) {}

  Result<void> run() {
    PENSTOCK_TRY(prepare());
    PENSTOCK_TRY(create());
    PENSTOCK_TRY(write());
    PENSTOCK_TRY(lookup());
    PENSTOCK_TRY(list());
    PENSTOCK_TRY(clone());
    PENSTOCK_TRY(unlink());
    PENSTOCK_TRY(purge());
    return commit();
  }

 private:
  Ino parent_of(uint64_t file) const { return directories_[file * count_of_directories_ / files_]; }
  Result<void> commit_now_and_then(uint64_t done) {
    if (done % kPerCommit == kPerCommit - 1) PENSTOCK_TRY(database_->commit({}));
    return {};
  }

  Result<void> prepare() {
    for (uint64_t i = 0; i < count_of_directories_; ++i) {
      const Inode made =
          PENSTOCK_TRY(names_->create(kRoot, fmt::format("class-{}", i), {.mode = S_IFDIR}, 1));
      directories_.push_back(made.ino);
    }
    return database_->add_object({.id = object_, .state = ObjectState::kStored, .bytes = kTiB});
  }

  Result<void> create() {
    Timer timer("create", files_);
    for (uint64_t i = 0; i < files_; ++i) {
      const Inode made =
          PENSTOCK_TRY(names_->create(parent_of(i), name_of(i), {.mode = S_IFREG | 0644}, 1));
      inodes_.push_back(made.ino);
      PENSTOCK_TRY(commit_now_and_then(i));
    }
    return {};
  }

  Result<void> write() {
    {
      Timer timer("write of one extent", files_);
      for (uint64_t i = 0; i < files_; ++i) {
        const Place place{
            .object = object_, .offset = i * 100'000, .stored = 100'000, .raw = 100'000};
        PENSTOCK_TRY(names_->write(inodes_[i], 0, {&place, 1}, 2));
        PENSTOCK_TRY(commit_now_and_then(i));
      }
    }
    PENSTOCK_TRY(database_->commit({}));
    return {};
  }

  Result<void> lookup() {
    {
      Timer timer("lookup, in order", files_);
      for (uint64_t i = 0; i < files_; ++i) PENSTOCK_TRY(names_->lookup(parent_of(i), name_of(i)));
    }
    const auto past = PENSTOCK_TRY(names_->at(database_->last_version()));
    for (View* view : {static_cast<View*>(names_.get()), past.get()}) {
      Timer timer(view == past.get() ? "lookup in the past" : "lookup, at random", files_);
      for (uint64_t n = 0; n < files_; ++n) {
        const uint64_t i = random_() % files_;
        PENSTOCK_TRY(view->lookup(parent_of(i), name_of(i)));
      }
    }
    Timer timer("extents of a file", files_);
    for (uint64_t n = 0; n < files_; ++n)
      PENSTOCK_TRY(names_->extents(inodes_[random_() % files_], 0, kMiB));
    return {};
  }

  Result<void> list() {
    Timer timer("entries listed", files_);
    for (const Ino directory : directories_) {
      for (uint64_t cookie = 0;;) {
        const auto page = PENSTOCK_TRY(names_->list(directory, cookie, 500));
        if (page.empty()) break;
        cookie = page.back().cookie;
      }
    }
    return {};
  }

  Result<void> clone() {
    Timer timer("rows cloned", 3 * files_);
    Settings settings;
    settings.name = "clone";
    PENSTOCK_TRY(database_->clone("bench", kLive, settings));
    PENSTOCK_TRY(database_->commit({}));
    return {};
  }

  Result<void> unlink() {
    Timer timer("unlink and forget", files_);
    for (uint64_t i = 0; i < files_; ++i) {
      PENSTOCK_TRY(names_->unlink(parent_of(i), name_of(i), 4));
      PENSTOCK_TRY(names_->forget(inodes_[i]));
      PENSTOCK_TRY(commit_now_and_then(i));
    }
    return {};
  }

  Result<void> purge() {
    // A row of history of each file's inode twice, of its name, and of its extent; and its chunk stays.
    Timer timer("rows purged, about", 4 * files_);
    while (true) {
      const Purged purged = PENSTOCK_TRY(database_->purge(5, kPerCommit));
      PENSTOCK_TRY(database_->commit({}));
      if (!purged.more) return {};
    }
  }

  Result<void> commit() {
    constexpr uint64_t kCommits = 200;
    Timer timer("commits of one create", kCommits);
    for (uint64_t i = 0; i < kCommits; ++i) {
      PENSTOCK_TRY(names_->create(kRoot, fmt::format("small-{}", i), {.mode = S_IFREG}, 1));
      PENSTOCK_TRY(database_->commit({}));
    }
    return {};
  }

  const std::unique_ptr<Database> database_;
  const std::unique_ptr<Namespace> names_;
  const uint64_t files_;
  const uint64_t count_of_directories_;
  const ObjectId object_{database_->session(), 1};
  std::vector<Ino> directories_;
  std::vector<Ino> inodes_;
  std::mt19937_64 random_{1};
};

Result<void> run(io::FileSystem& fs, const std::string& path, const Size& size) {
  SqliteOptions options;
  options.create = Settings();
  options.create->name = "bench";
  auto database = PENSTOCK_TRY(open_sqlite(fs, path, options));
  auto names = PENSTOCK_TRY(database->open("bench"));
  return Bench(std::move(database), std::move(names), size).run();
}

}  // namespace
}  // namespace penstock::meta

int main(int argc, char** argv) {
  CLI::App app("Measures the metadata of volumes.");
  penstock::meta::Size size;
  std::string path = "/tmp/penstock-meta-bench.db";
  app.add_option("--files", size.files, "How many files")->check(CLI::PositiveNumber);
  app.add_option("--directories", size.directories, "Which they are in")
      ->check(CLI::PositiveNumber);
  app.add_option("--path", path, "Of the database, which is made and removed");
  CLI11_PARSE(app, argc, argv);
  const auto fs = penstock::io::process_file_system();
  if (!fs.ok()) return 1;
  const auto done = penstock::meta::run(**fs, path, size);
  for (const char* suffix : {"", "-wal"}) (void)(*fs)->remove(path + suffix);
  if (!done.ok()) fmt::print(stderr, "{}\n", done.error().to_string());
  return done.ok() ? 0 : 1;
}
