// Looks whether everything that files refer to is there, and is what it should be.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "penstock/meta.h"
#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/content_reader.h"

namespace penstock::volume {

class Fsck {
 public:
  // All outlive it.
  Fsck(meta::Database& database, ContentReader& reader, store::ObjectStore& store,
       const VolumeUuid& space)
      : database_(database), reader_(reader), store_(store), space_(space) {}

  Result<FsckReport> run(const FsckOptions& options);

 private:
  Result<void> check_volume(const std::string& name, const FsckOptions& options);
  Result<std::unique_ptr<meta::Pin>> pin_last();
  Result<void> check_directory(meta::View& names, meta::Ino ino, const std::string& path);
  Result<void> check_file(meta::View& names, const meta::Inode& inode, const std::string& path);
  // What is wrong with the chunk, if anything, wherever it is moved meanwhile.
  std::optional<std::string> follow(meta::View& names, meta::Ino ino, const meta::Extent& extent);
  // What is wrong with the chunk, if anything; remembered.
  const std::optional<std::string>& look_at(const meta::Extent& extent);
  std::optional<std::string> check_chunk(const meta::Place& place);
  // The size of an object, or what is wrong with it.
  const Result<uint64_t>& size_of(meta::ObjectId object);
  void add(const std::string& path, std::string what);

  meta::Database& database_;
  ContentReader& reader_;
  store::ObjectStore& store_;
  const VolumeUuid space_;
  const FsckOptions* options_ = nullptr;
  std::string volume_;
  FsckReport report_;
  std::map<meta::ObjectId, Result<uint64_t>> sizes_;
  std::map<meta::ChunkId, std::optional<std::string>> chunks_;
};

}  // namespace penstock::volume
