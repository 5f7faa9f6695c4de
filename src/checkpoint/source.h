// Where the files of a checkpoint are: in a directory, or in an object store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/store.h"

namespace penstock::checkpoint {

// Threads: any.
class SourceFile {
 public:
  virtual ~SourceFile() = default;
  // As io::File::read: less than asked for only at the end.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> into) = 0;
};

// One checkpoint. Threads: any.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<std::string> read_text(const std::string& name, uint64_t limit_bytes) = 0;
  virtual Result<uint64_t> size(const std::string& name) = 0;
  virtual Result<std::unique_ptr<SourceFile>> open(const std::string& name) = 0;
  virtual const std::string& path() const = 0;  // For people.
};

// `fs` outlives it.
std::unique_ptr<Source> directory_source(io::FileSystem& fs, std::string path);
// Objects below `folder`, which ends with no '/'.
std::unique_ptr<Source> store_source(std::shared_ptr<store::ObjectStore> store, std::string folder);

}  // namespace penstock::checkpoint
