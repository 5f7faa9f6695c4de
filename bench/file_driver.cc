// What programs do with files, timed: plain system calls, nothing gathered, nothing in between. Prints JSON.
//
//   file_driver write FILE --bytes 1GiB [--block 1MiB]        then fsync
//   file_driver read FILE [--block 1MiB] [--direct]            past the page cache
//   file_driver append FILE --count 1000 --bytes 1KiB         fsync after each
//   file_driver overwrite FILE --count 1000 --bytes 4KiB      at random places, fsync after each
//   file_driver create|read-files|stat|unlink FOLDER --count 20000 [--bytes 100KiB]
//                                                             FOLDER/000/000000 and so on
//   file_driver statfs FOLDER --count 20000                   no kernel keeps the answer: one request each
//   file_driver walk FOLDER                                   as ls -lR
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace {

using namespace penstock;

constexpr uint64_t kFilesPerFolder = 1000;
constexpr uint64_t kSeed = 1;
constexpr size_t kAlignment = 4096;

struct Settings {
  std::string work;
  std::string path;
  std::string bytes = "0";
  std::string block = "1MiB";
  uint64_t count = 0;
  uint64_t seed = kSeed;
  bool direct = false;
};

struct Done {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};

class File {
 public:
  static Result<File> open(const std::string& path, int flags) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) return errno_error(errno, path);
    return File(fd);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;

  int fd() const { return fd_; }
  Result<void> close() {
    if (::close(std::exchange(fd_, -1)) != 0) return errno_error(errno, "close");
    return {};
  }

 private:
  explicit File(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Nothing that could be compressed.
std::vector<char> noise(uint64_t bytes, uint64_t seed) {
  std::vector<char> made(bytes);
  std::mt19937_64 generator(seed);
  for (size_t at = 0; at < made.size(); at += sizeof(uint64_t)) {
    const uint64_t word = generator();
    std::memcpy(made.data() + at, &word, std::min(sizeof word, made.size() - at));
  }
  return made;
}

Result<void> write_all(int fd, const char* bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t done = ::write(fd, bytes, size);
    if (done < 0) return errno_error(errno, "write");
    bytes += done;
    size -= static_cast<uint64_t>(done);
  }
  return {};
}

Result<Done> write_file(const Settings& settings, uint64_t bytes, uint64_t block,
                        const std::vector<char>& data) {
  File file = PENSTOCK_TRY(File::open(settings.path, O_WRONLY | O_CREAT | O_TRUNC));
  for (uint64_t at = 0; at < bytes; at += block) {
    PENSTOCK_TRY(write_all(file.fd(), data.data() + at % (data.size() - block + 1),
                           std::min(block, bytes - at)));
  }
  if (::fsync(file.fd()) != 0) return errno_error(errno, "fsync");
  PENSTOCK_TRY(file.close());
  return Done{1, bytes};
}

Result<Done> read_file(const std::string& path, std::span<char> into, bool direct) {
  const File file = PENSTOCK_TRY(File::open(path, O_RDONLY | (direct ? O_DIRECT : 0)));
  Done done{1, 0};
  while (true) {
    const ssize_t got = ::read(file.fd(), into.data(), into.size());
    if (got < 0) return errno_error(errno, path);
    if (got == 0) return done;
    done.bytes += static_cast<uint64_t>(got);
  }
}

Result<Done> sync_often(const Settings& settings, uint64_t bytes, bool append) {
  const File file =
      PENSTOCK_TRY(File::open(settings.path, O_RDWR | O_CREAT | (append ? O_APPEND : 0)));
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return errno_error(errno, settings.path);
  // Never the same twice: that could be compressed.
  const std::vector<char> data = noise(bytes * settings.count, settings.seed);
  std::mt19937_64 generator(settings.seed);
  const uint64_t places = std::max<uint64_t>(static_cast<uint64_t>(info.st_size) / bytes, 1);
  for (uint64_t i = 0; i < settings.count; ++i) {
    if (!append) ::lseek(file.fd(), static_cast<off_t>(generator() % places * bytes), SEEK_SET);
    PENSTOCK_TRY(write_all(file.fd(), data.data() + i * bytes, bytes));
    if (::fsync(file.fd()) != 0) return errno_error(errno, "fsync");
  }
  return Done{settings.count, settings.count * bytes};
}

std::string folder_of(const Settings& settings, uint64_t number) {
  return fmt::format("{}/{:03}", settings.path, number / kFilesPerFolder);
}

std::string name_of(const Settings& settings, uint64_t number) {
  return fmt::format("{}/{:06}", folder_of(settings, number), number);
}

Result<Done> create_files(const Settings& settings, uint64_t bytes, const std::vector<char>& data) {
  for (uint64_t i = 0; i < settings.count; ++i) {
    if (i % kFilesPerFolder == 0 && ::mkdir(folder_of(settings, i).c_str(), 0755) != 0 &&
        errno != EEXIST) {
      return errno_error(errno, folder_of(settings, i));
    }
    File file = PENSTOCK_TRY(File::open(name_of(settings, i), O_WRONLY | O_CREAT | O_EXCL));
    if (bytes > 0) {
      PENSTOCK_TRY(write_all(file.fd(), data.data() + i % (data.size() - bytes + 1), bytes));
    }
    PENSTOCK_TRY(file.close());
  }
  return Done{settings.count, settings.count * bytes};
}

Result<Done> read_files(const Settings& settings, std::span<char> into) {
  Done done;
  for (uint64_t i = 0; i < settings.count; ++i) {
    const Done one = PENSTOCK_TRY(read_file(name_of(settings, i), into, false));
    done.bytes += one.bytes;
    ++done.operations;
  }
  return done;
}

Result<Done> ask_often(const Settings& settings) {
  struct statfs info {};
  for (uint64_t i = 0; i < settings.count; ++i) {
    if (::statfs(settings.path.c_str(), &info) != 0) return errno_error(errno, settings.path);
  }
  return Done{settings.count, 0};
}

Result<Done> stat_files(const Settings& settings) {
  for (uint64_t i = 0; i < settings.count; ++i) {
    struct stat info {};
    const std::string name = name_of(settings, i);
    if (::stat(name.c_str(), &info) != 0) return errno_error(errno, name);
  }
  return Done{settings.count, 0};
}

Result<Done> unlink_files(const Settings& settings) {
  for (uint64_t i = 0; i < settings.count; ++i) {
    const std::string name = name_of(settings, i);
    if (::unlink(name.c_str()) != 0) return errno_error(errno, name);
  }
  return Done{settings.count, 0};
}

Result<Done> walk(const std::string& folder) {
  DIR* const opened = ::opendir(folder.c_str());
  if (opened == nullptr) return errno_error(errno, folder);
  Done done;
  std::vector<std::string> folders;
  Result<void> failed;
  while (const dirent* entry = ::readdir(opened)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (::fstatat(::dirfd(opened), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      failed = errno_error(errno, name);
      break;
    }
    ++done.operations;
    if (S_ISDIR(info.st_mode)) folders.push_back(folder + "/" + name);
  }
  ::closedir(opened);
  PENSTOCK_TRY(std::move(failed));
  for (const std::string& one : folders) done.operations += PENSTOCK_TRY(walk(one)).operations;
  return done;
}

Result<void> run(const Settings& settings) {
  const uint64_t bytes = PENSTOCK_TRY(parse_size(settings.bytes));
  const uint64_t block = PENSTOCK_TRY(parse_size(settings.block));
  // Memory is made before the clock runs.
  std::vector<char> data =
      noise(2 * std::max(block, std::min<uint64_t>(bytes, kMiB)), settings.seed);
  const auto start = std::chrono::steady_clock::now();
  Result<Done> done =
      make_error(ErrorCode::kInvalid, fmt::format("no such work: {}", settings.work));
  if (settings.work == "write") done = write_file(settings, bytes, block, data);
  if (settings.work == "read") {
    // Where direct reads may put it.
    const auto begin = reinterpret_cast<uintptr_t>(data.data());
    const size_t skipped = (kAlignment - begin % kAlignment) % kAlignment;
    done = read_file(settings.path, std::span(data).subspan(skipped, block), settings.direct);
  }
  if (settings.work == "append") done = sync_often(settings, bytes, /*append=*/true);
  if (settings.work == "overwrite") done = sync_often(settings, bytes, /*append=*/false);
  if (settings.work == "create") done = create_files(settings, bytes, data);
  if (settings.work == "read-files") done = read_files(settings, data);
  if (settings.work == "stat") done = stat_files(settings);
  if (settings.work == "unlink") done = unlink_files(settings);
  if (settings.work == "statfs") done = ask_often(settings);
  if (settings.work == "walk") done = walk(settings.path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!done.ok()) return done.error();
  fmt::print(R"({{"seconds": {}, "operations": {}, "bytes": {}}})"
             "\n",
             seconds.count(), done->operations, done->bytes);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What programs do with files, timed");
  app.add_option("work", settings.work)->required();
  app.add_option("path", settings.path)->required();
  app.add_option("--bytes", settings.bytes);
  app.add_option("--block", settings.block);
  app.add_option("--count", settings.count);
  app.add_option("--seed", settings.seed);
  app.add_flag("--direct", settings.direct);
  CLI11_PARSE(app, argc, argv);
  const Result<void> done = run(settings);
  if (done.ok()) return 0;
  fmt::print(stderr, "file_driver: {}\n", done.error().to_string());
  return 1;
}
