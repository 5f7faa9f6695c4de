// File systems in memory with the manners of others: for tests.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "io/memory_file_system.h"
#include "io/passing_file.h"
#include "penstock/io.h"

namespace penstock::sync {

// Passes every call on. What differs is overridden.
class PassingFileSystem : public io::FileSystem {
 public:
  explicit PassingFileSystem(io::FileSystem& inner) : inner_(inner) {}

  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    return inner_.open(map(path), options);
  }
  Result<io::FileInfo> stat(const std::string& path) override { return inner_.stat(map(path)); }
  Result<io::FileInfo> stat_link(const std::string& path) override {
    return inner_.stat_link(map(path));
  }
  Result<std::string> read_link(const std::string& path) override {
    return inner_.read_link(map(path));
  }
  Result<void> make_symlink(const std::string& target, const std::string& path) override {
    return inner_.make_symlink(target, map(path));
  }
  Result<void> rename(const std::string& from, const std::string& to,
                      io::RenameMode mode) override {
    return inner_.rename(map(from), map(to), mode);
  }
  Result<void> remove(const std::string& path) override { return inner_.remove(map(path)); }
  Result<void> remove_directory(const std::string& path) override {
    return inner_.remove_directory(map(path));
  }
  Result<void> make_directory(const std::string& path, mode_t permissions) override {
    return inner_.make_directory(map(path), permissions);
  }
  Result<void> list(const std::string& path,
                    const std::function<bool(const io::DirectoryEntry&)>& visit) override {
    return inner_.list(map(path), visit);
  }
  Result<void> sync_directory(const std::string& path) override {
    return inner_.sync_directory(map(path));
  }
  Result<void> sync_file_system(const std::string& path) override {
    return inner_.sync_file_system(map(path));
  }
  Result<io::SpaceInfo> space(const std::string& path) override { return inner_.space(map(path)); }
  Result<std::unique_ptr<io::FileLock>> try_lock(const std::string& path) override {
    return inner_.try_lock(map(path));
  }
  std::string boot_id() override { return inner_.boot_id(); }
  std::string description() const override { return inner_.description(); }

 protected:
  virtual std::string map(const std::string& path) { return path; }

 private:
  io::FileSystem& inner_;
};

// "A" and "a" are one name; the first way in which it was written is kept.
class FoldingFileSystem : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;

 protected:
  std::string map(const std::string& path) override {
    std::string real;
    size_t begin = 0;
    while (begin < path.size()) {
      const size_t end = std::min(path.find('/', begin), path.size());
      if (end > begin) real += "/" + find(real, path.substr(begin, end - begin));
      begin = end + 1;
    }
    return real.empty() ? "/" : real;
  }

 private:
  static std::string folded(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  }
  std::string find(const std::string& directory, const std::string& name) {
    std::string found = name;
    (void)PassingFileSystem::list(directory, [&](const io::DirectoryEntry& entry) {
      if (folded(entry.name) == folded(name)) found = entry.name;
      return entry.name != name;
    });
    return found;
  }
};

// As for somebody who is not root: no name is made or removed in a directory that its owner may not
// write to.
class GuardedFileSystem : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;

  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    if (options.create != io::Create::kNever) PENSTOCK_TRY(check(path));
    return PassingFileSystem::open(path, options);
  }
  Result<void> make_symlink(const std::string& target, const std::string& path) override {
    PENSTOCK_TRY(check(path));
    return PassingFileSystem::make_symlink(target, path);
  }
  Result<void> rename(const std::string& from, const std::string& to,
                      io::RenameMode mode) override {
    PENSTOCK_TRY(check(from));
    PENSTOCK_TRY(check(to));
    return PassingFileSystem::rename(from, to, mode);
  }
  Result<void> remove(const std::string& path) override {
    PENSTOCK_TRY(check(path));
    return PassingFileSystem::remove(path);
  }
  Result<void> remove_directory(const std::string& path) override {
    PENSTOCK_TRY(check(path));
    return PassingFileSystem::remove_directory(path);
  }
  Result<void> make_directory(const std::string& path, mode_t permissions) override {
    PENSTOCK_TRY(check(path));
    return PassingFileSystem::make_directory(path, permissions);
  }

 private:
  Result<void> check(const std::string& path) {
    const Result<io::FileInfo> parent = stat(io::parent_path(path));
    if (!parent.ok() || (parent->mode & 0200) != 0) return {};
    return errno_error(EACCES, path);
  }
};

// Every so manieth write lands with a wrong bit.
class RottenFileSystem : public PassingFileSystem {
 public:
  RottenFileSystem(io::FileSystem& inner, uint64_t every)
      : PassingFileSystem(inner), every_(every) {}

  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    std::unique_ptr<io::File> file = PENSTOCK_TRY(PassingFileSystem::open(path, options));
    return std::unique_ptr<io::File>(std::make_unique<RottenFile>(std::move(file), *this));
  }

 private:
  class RottenFile : public io::PassingFile {
   public:
    RottenFile(std::unique_ptr<io::File> inner, RottenFileSystem& fs)
        : PassingFile(std::move(inner)), fs_(fs) {}
    Result<void> write(uint64_t offset, std::span<const std::byte> from) override {
      std::vector<std::byte> bytes(from.begin(), from.end());
      if (++fs_.writes_ % fs_.every_ == 0 && !bytes.empty()) bytes.back() ^= std::byte{1};
      return PassingFile::write(offset, bytes);
    }

   private:
    RottenFileSystem& fs_;
  };

  const uint64_t every_;
  std::atomic<uint64_t> writes_{0};
};

// Keeps times in steps.
class CoarseFileSystem : public PassingFileSystem {
 public:
  CoarseFileSystem(io::FileSystem& inner, int64_t step_ns)
      : PassingFileSystem(inner), step_ns_(step_ns) {}

  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    std::unique_ptr<io::File> file = PENSTOCK_TRY(PassingFileSystem::open(path, options));
    return std::unique_ptr<io::File>(std::make_unique<CoarseFile>(std::move(file), step_ns_));
  }

 private:
  class CoarseFile : public io::PassingFile {
   public:
    CoarseFile(std::unique_ptr<io::File> inner, int64_t step_ns)
        : PassingFile(std::move(inner)), step_ns_(step_ns) {}
    Result<void> set_attributes(std::optional<uint32_t> mode,
                                std::optional<int64_t> mtime_ns) override {
      if (mtime_ns) *mtime_ns -= *mtime_ns % step_ns_;
      return PassingFile::set_attributes(mode, mtime_ns);
    }

   private:
    const int64_t step_ns_;
  };

  const int64_t step_ns_;
};

}  // namespace penstock::sync
