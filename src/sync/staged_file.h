#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "penstock/io.h"

namespace penstock::sync {

// A file or link of a target tree under a temporary name, removed again unless it was published.
// Threads: write() from many, of ranges that do not overlap; the rest by one at a time.
class StagedFile {
 public:
  // kExists when the temporary name is taken, kInvalid when a part of its path is a link.
  static Result<std::unique_ptr<StagedFile>> create(io::FileSystem& fs, std::string temporary,
                                                    std::string final_path, mode_t permissions);
  static Result<std::unique_ptr<StagedFile>> create_link(io::FileSystem& fs, std::string temporary,
                                                         std::string final_path,
                                                         const std::string& leads_to);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  // With `verify` the bytes are read back and compared: kCorrupt when they differ.
  Result<void> write(uint64_t offset, std::span<const std::byte> bytes, bool verify);
  // Room for `size` bytes, where the file system can reserve it.
  Result<void> reserve(uint64_t size);
  // Checks the size, sets what is given, and closes. With `sync` all of it survives a power cut
  // from now on, save the name.
  Result<void> finish(uint64_t size, std::optional<uint32_t> mode, std::optional<int64_t> mtime_ns,
                      bool sync);
  // Gives it its name. After finish(), and once it is durable.
  Result<void> publish(io::RenameMode mode);

  uint64_t size() const { return size_; }
  bool synced() const { return synced_; }
  const std::string& path() const { return final_path_; }

 private:
  StagedFile(io::FileSystem& fs, std::string temporary, std::string final_path)
      : fs_(fs), temporary_(std::move(temporary)), final_path_(std::move(final_path)) {}
  Result<void> verify_range(uint64_t offset, std::span<const std::byte> bytes);

  io::FileSystem& fs_;
  const std::string temporary_;
  const std::string final_path_;
  std::unique_ptr<io::File> file_;
  uint64_t size_ = 0;
  bool synced_ = false;
  bool published_ = false;
};

}  // namespace penstock::sync
