// A directory with entries, for the tests of what looks at all of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cache/directory.h"
#include "cache/entry_test_data.h"
#include "cache/testing.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

class CacheToolTest : public ::testing::Test {
 protected:
  static constexpr const char* kRoot = "/nvme/cache";
  static constexpr uint64_t kObjectBytes = 1 << 30;

  CacheToolTest() { open(); }

  void open() {
    auto opened = CacheDirectory::open(fs_, kRoot, io::CacheMode::kDirect);
    ASSERT_THAT(opened, IsOk());
    directory_ = std::move(*opened);
  }

  EntryName add(const std::string& url, uint64_t offset = 0, uint32_t length = 100'000,
                const std::string& etag = "v1") {
    const EntryKey key{{url, etag, kObjectBytes}, offset, length};
    Bytes entry = make_entry(key, offset + length);
    const Result<void> published = directory_->publish(name_of(key), std::span(entry));
    EXPECT_THAT(published, IsOk());
    return name_of(key);
  }

  void flip(const EntryName& name, uint64_t offset) {
    auto file = fs_.open(directory_->path_of(name), {.access = io::Access::kReadWrite});
    ASSERT_THAT(file, IsOk());
    std::byte byte{};
    ASSERT_THAT((*file)->read(offset, std::span(&byte, 1)), IsOk());
    byte ^= std::byte{0x10};
    ASSERT_THAT((*file)->write(offset, std::span(&byte, 1)), IsOk());
  }
  void cut(const EntryName& name, uint64_t size) {
    auto file = fs_.open(directory_->path_of(name), {.access = io::Access::kReadWrite});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->truncate(size), IsOk());
  }
  void plant(const std::string& path, std::string_view contents = "planted") {
    (void)io::make_directories(fs_, io::parent_path(std::string(kRoot) + "/" + path));
    ASSERT_THAT(io::write_file_durably(fs_, std::string(kRoot) + "/" + path, contents), IsOk());
  }
  bool is_there(const EntryName& name) { return fs_.stat(directory_->path_of(name)).ok(); }
  bool is_there(const std::string& path) { return fs_.stat(std::string(kRoot) + "/" + path).ok(); }

  io::MemoryFileSystem fs_;
  std::unique_ptr<CacheDirectory> directory_;
};

}  // namespace penstock::cache
