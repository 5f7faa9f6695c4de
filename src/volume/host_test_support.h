// Hosts on a file system in memory, without threads of their own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/result_matchers.h"
#include "io/memory_file_system.h"
#include "penstock/volume.h"
#include "volume/journal_test_support.h"

namespace penstock::volume {

inline const std::string kHostPath = "/var/train";

// A clock that goes on by a second each time it is asked.
class TestClock {
 public:
  meta::Time operator()() const { return *time_ += 1'000'000'000; }

 private:
  std::shared_ptr<std::atomic<meta::Time>> time_ =
      std::make_shared<std::atomic<meta::Time>>(1'700'000'000'000'000'000);
};

inline HostOptions quiet_options(io::FileSystem& fs) {
  HostOptions options;
  options.file_system = &fs;
  options.memory_bytes = 64 * kMiB;
  options.background = false;
  options.segment_bytes = 64 * kKiB;
  options.writeback.journal_bytes = 64 * options.segment_bytes;
  options.io_timeout = std::chrono::seconds(5);
  options.now = TestClock();
  return options;
}

inline std::shared_ptr<Host> new_host(io::FileSystem& fs, const NewVolume& volume = {.name = "v"}) {
  Result<std::shared_ptr<Host>> host = create_host(kHostPath, volume, quiet_options(fs));
  EXPECT_THAT(host, IsOk());
  return host.ok() ? *host : nullptr;
}

inline std::shared_ptr<Host> same_host(io::FileSystem& fs) {
  Result<std::shared_ptr<Host>> host = open_host(kHostPath, quiet_options(fs));
  EXPECT_THAT(host, IsOk());
  return host.ok() ? *host : nullptr;
}

inline meta::Ino make_file(Volume& volume, const std::string& name,
                           meta::Ino parent = meta::kRoot) {
  const auto made = volume.create(parent, name, {.mode = S_IFREG | 0644});
  EXPECT_THAT(made, IsOk());
  return made.ok() ? made->ino : 0;
}

inline Bytes content_of(VolumeView& view, meta::Ino ino) {
  const auto inode = view.names().inode(ino);
  EXPECT_THAT(inode, IsOk());
  if (!inode.ok()) return {};
  Bytes bytes(inode->size);
  const auto got = view.read(ino, 0, bytes);
  EXPECT_THAT(got, IsOk());
  EXPECT_EQ(got.value_or(0), bytes.size());
  return bytes;
}

inline Bytes content_of(VolumeView& view, const std::string& name) {
  const auto inode = view.names().lookup(meta::kRoot, name);
  EXPECT_THAT(inode, IsOk());
  return inode.ok() ? content_of(view, inode->ino) : Bytes();
}

}  // namespace penstock::volume
