// One process and its cache directory, for tests.
#pragma once

#include <string>
#include <vector>

#include "cache/keeper_test_bed.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

inline KeeperOptions with_quota(uint64_t bytes) {
  return {.quota = bytes_of(bytes), .free_floor = bytes_of(0), .on_error = [](const Error& error) {
            ADD_FAILURE() << error.to_string();
          }};
}

// One directory on a small drive.
class KeeperFixture : public ::testing::Test {
 protected:
  TestMember open(const KeeperOptions& options) {
    TestMember member(fs_, kPath, options);
    member.settle();
    return member;
  }

  void write_file(const std::string& path, uint64_t size) {
    auto file = fs_.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->write(0, std::vector<std::byte>(size)), IsOk());
  }

  io::MemoryFileSystem fs_{{.capacity_bytes = 64 * kMiB}};
};

}  // namespace penstock::cache
