#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "penstock/io.h"
#include "penstock/store.h"

namespace penstock::store {

// A file being written under a temporary name, removed again unless it was moved to where it
// belongs.
// Threads: one at a time.
class TemporaryFile {
 public:
  // kExists when the name is taken.
  static Result<std::unique_ptr<TemporaryFile>> create(io::FileSystem& fs, std::string path,
                                                       bool follow_links = true);
  ~TemporaryFile();

  // Appends, looking at deadline and cancellation every few MiB.
  Result<void> write(std::span<const std::byte> bytes, const CallOptions& options);
  // Appends the first `size` bytes of `from`; kChanged when it has fewer.
  Result<void> copy(io::File& from, uint64_t size, const CallOptions& options);
  uint64_t size() const { return size_; }
  io::File& file() { return *file_; }
  // Gives the file its name; close it first.
  Result<void> move_to(const std::string& path, io::RenameMode mode);

 private:
  TemporaryFile(io::FileSystem& fs, std::string path, std::unique_ptr<io::File> file)
      : fs_(fs), path_(std::move(path)), file_(std::move(file)) {}

  io::FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<io::File> file_;
  uint64_t size_ = 0;
  bool moved_ = false;
};

// An upload into a temporary file, which `publish` then turns into the object.
std::unique_ptr<Upload> make_file_upload(
    std::unique_ptr<TemporaryFile> file, PutOptions options,
    std::function<Result<ObjectInfo>(TemporaryFile&, const PutOptions&)> publish);

// Bytes [offset, offset + into.size()) or what of them lies before `size`, in steps with a look at
// deadline and cancellation between them. The count is less than that only when the file ends.
Result<size_t> read_in_steps(io::File& file, uint64_t size, uint64_t offset,
                             std::span<std::byte> into, const CallOptions& options);

}  // namespace penstock::store
