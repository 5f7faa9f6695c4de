// The directory of a host: where what is, whose it is, and who has it.
//
//   DIR/penstock-volume    what this is: format version, feature bits, uuid (text; written last)
//   DIR/metadata.db        the database, and its log beside it
//   DIR/journal/           what was acknowledged and is not committed or not stored yet
//   DIR/blocks/            objects, where the volume names no other store
//   DIR/owner.lock         locked by the owner
#pragma once

#include <memory>
#include <string>

#include "penstock/io.h"
#include "volume/uuid.h"

namespace penstock::volume {

struct HostFiles {
  std::string directory;
  VolumeUuid uuid{};  // In the keys of all objects, and in the journal.

  std::string marker() const { return directory + "/penstock-volume"; }
  std::string database() const { return directory + "/metadata.db"; }
  std::string journal() const { return directory + "/journal"; }
  std::string blocks() const { return directory + "/blocks"; }
};

// kNotFound when there is none; kUnsupported: of a newer version.
Result<HostFiles> find_host(io::FileSystem& fs, const std::string& directory);
// Makes it one, durably, once all else is there.
Result<void> mark_host(io::FileSystem& fs, const HostFiles& files);
// Until it is destroyed, or the process ends. kBusy: somebody else has it.
Result<std::unique_ptr<io::FileLock>> lock_host(io::FileSystem& fs, const std::string& directory);

}  // namespace penstock::volume
