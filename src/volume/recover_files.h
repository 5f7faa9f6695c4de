// Where content that is saved from a journal goes: first by the numbers of files, then by their names.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "penstock/io.h"
#include "penstock/meta.h"
#include "volume/operation.h"

namespace penstock::volume {

class RecoveredFiles {
 public:
  // `fs` outlives it.
  RecoveredFiles(io::FileSystem& fs, std::string directory)
      : fs_(fs), directory_(std::move(directory)) {}

  // What the operation does to content, if anything.
  Result<void> apply(const Operation& operation, std::span<const std::byte> content);
  // All files of this volume get the names that they have there, if any.
  Result<void> name(const VolumeUuid& volume, const std::string& name, meta::View& view);
  Result<void> sync();

  uint64_t count() const { return files_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  using Key = std::pair<VolumeUuid, meta::Ino>;
  struct Saved {
    std::string path;
  };

  Result<std::unique_ptr<io::File>> open(const Key& key);
  Result<void> resize(const Key& key, uint64_t size);
  Result<void> zero(const Key& key, uint64_t offset, uint64_t length);
  Result<void> name_directory(const VolumeUuid& volume, meta::View& view, meta::Ino ino,
                              const std::string& path);
  Result<void> give_name(Saved& saved, const std::string& path);

  io::FileSystem& fs_;
  const std::string directory_;
  std::map<Key, Saved> files_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::volume
