// A cache directory and its keepers, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/directory.h"
#include "cache/directory_open.h"
#include "cache/keeper.h"
#include "cache/testing.h"
#include "io/memory_file_system.h"
#include "penstock/units.h"

namespace penstock::cache {

inline constexpr uint64_t kBlock = kBlockBytes;
inline constexpr const char* kPath = "/cache";

inline SizeOrPercent bytes_of(uint64_t bytes) {
  return {.bytes = bytes};
}

// One opening of a directory, as one process has it.
class TestMember {
 public:
  TestMember(io::FileSystem& fs, const std::string& path, KeeperOptions options) {
    Result<std::unique_ptr<CacheDirectory>> opened =
        CacheDirectory::open(fs, path, io::CacheMode::kBuffered);
    EXPECT_THAT(opened, IsOk());
    if (!opened.ok()) return;
    directory = std::move(*opened);
    keeper = Keeper::start(*directory, std::move(options));
  }

  // As a miss does: reserves, publishes, notes. False: there was no room.
  bool fill(const EntryName& name) {
    if (!keeper->reserve(name)) return false;
    return publish(name);
  }
  // Requires that it is reserved.
  bool publish(const EntryName& name) {
    std::vector<std::byte> file(name.file_bytes());
    if (!directory->publish(name, std::span(file)).ok()) {
      keeper->cancel_fill(name);
      return false;
    }
    keeper->note_added(name);
    return true;
  }
  void use(const EntryName& name) { keeper->note_used(name.id, name.file_bytes()); }
  bool has(const EntryName& name) { return directory->open_entry(name).ok(); }

  void settle() { EXPECT_THAT(keeper->settle(deadline_in(std::chrono::seconds(20))), IsOk()); }
  KeeperStatus status() {
    settle();
    return keeper->status();
  }

  // What is really there.
  uint64_t bytes_on_drive() {
    uint64_t bytes = 0;
    EXPECT_THAT(directory->scan([&](const EntryName& name) {
      bytes += name.file_bytes();
      return true;
    }),
                IsOk());
    return bytes;
  }

  std::unique_ptr<CacheDirectory> directory;
  std::unique_ptr<Keeper> keeper;
};

// What is there at one moment, whatever others do meanwhile.
inline uint64_t bytes_at_a_moment(io::MemoryFileSystem& fs, const std::string& path) {
  EXPECT_THAT(fs.sync_file_system("/"), IsOk());  // Or every write since would be copied too.
  const std::unique_ptr<io::MemoryFileSystem> moment = fs.clone();
  uint64_t bytes = 0;
  EXPECT_THAT(scan_entries(*moment, path + "/" + kEntriesName,
                           [&](const EntryName& name) {
                             bytes += name.file_bytes();
                             return true;
                           },
                           {}),
              IsOk());
  return bytes;
}

}  // namespace penstock::cache
