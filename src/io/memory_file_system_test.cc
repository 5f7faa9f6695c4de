#include "io/memory_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/log.h"
#include "io/file_system_conformance.h"

namespace penstock::io {
namespace {

class MemoryTarget : public ConformanceTarget {
 public:
  MemoryTarget() { PENSTOCK_EXPECT_OK(fs_.make_directory("/test")); }
  FileSystem& fs() override { return fs_; }
  std::string directory() const override { return "/test"; }

 private:
  MemoryFileSystem fs_;
};

Result<std::unique_ptr<ConformanceTarget>> make_target() {
  return std::unique_ptr<ConformanceTarget>(std::make_unique<MemoryTarget>());
}

INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance,
                         testing::ValuesIn(conformance_params(make_target)), conformance_name);

TEST(MemoryFileSystem, RunsOutOfSpaceAfterWhatFits) {
  MemoryFileSystem fs({.capacity_bytes = 10 * 4096});
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_ERROR(write_string(*file, 100, std::string(20 * 4096, 'a')), kNoSpace);
  EXPECT_EQ(file->stat()->size, 10u * 4096);
  EXPECT_EQ(fs.space("/")->free_bytes, 0u);
  PENSTOCK_EXPECT_OK(write_string(*file, 0, std::string(4096, 'b')));  // In a block it has.
  PENSTOCK_EXPECT_ERROR(write_string(*create(fs, "/g"), 0, "x"), kNoSpace);
  PENSTOCK_EXPECT_ERROR(file->allocate(0, 11 * 4096), kNoSpace);
}

TEST(MemoryFileSystem, SpaceComesBack) {
  MemoryFileSystem fs({.capacity_bytes = 10 * 4096, .inode_limit = 3});
  auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, std::string(8 * 4096, 'a')));
  EXPECT_EQ(fs.space("/")->free_bytes, 2u * 4096);
  PENSTOCK_EXPECT_OK(file->truncate(4096));
  EXPECT_EQ(fs.space("/")->free_bytes, 9u * 4096);
  PENSTOCK_EXPECT_OK(fs.remove("/f"));
  EXPECT_EQ(fs.space("/")->free_bytes, 9u * 4096);
  EXPECT_EQ(fs.space("/")->free_inodes, 1u);
  file.reset();
  EXPECT_EQ(fs.space("/")->free_bytes, 10u * 4096);
  EXPECT_EQ(fs.space("/")->free_inodes, 2u);
}

TEST(MemoryFileSystem, WritesIntoAllocatedRangesFindSpace) {
  MemoryFileSystem fs({.capacity_bytes = 10 * 4096});
  const auto reserved = create(fs, "/reserved");
  PENSTOCK_EXPECT_OK(reserved->allocate(0, 6 * 4096));
  PENSTOCK_EXPECT_ERROR(write_string(*create(fs, "/f"), 0, std::string(5 * 4096, 'a')), kNoSpace);
  PENSTOCK_EXPECT_OK(write_string(*reserved, 0, std::string(6 * 4096, 'b')));
}

TEST(MemoryFileSystem, RunsOutOfInodes) {
  MemoryFileSystem fs({.inode_limit = 3});
  create(fs, "/f");
  PENSTOCK_EXPECT_OK(fs.make_directory("/d"));
  PENSTOCK_EXPECT_ERROR(fs.make_directory("/e"), kNoSpace);
  PENSTOCK_EXPECT_ERROR(fs.open("/g", {.create = Create::kIfMissing}), kNoSpace);
  PENSTOCK_EXPECT_OK(fs.remove("/f"));
  PENSTOCK_EXPECT_OK(fs.make_directory("/e"));
}

TEST(MemoryFileSystem, RefusesModesWhenToldTo) {
  MemoryFileSystem fs({.supports_direct = false, .supports_uncached = false});
  OpenOptions options{.access = Access::kReadWrite, .create = Create::kIfMissing};
  for (const CacheMode mode : {CacheMode::kDirect, CacheMode::kUncached}) {
    options.mode = mode;
    options.require_mode = true;
    PENSTOCK_EXPECT_ERROR(fs.open("/f", options), kUnsupported);
    PENSTOCK_EXPECT_ERROR(fs.stat("/f"), kNotFound);
  }
  options.require_mode = false;
  set_log_sink([](std::string_view line) { EXPECT_THAT(line, testing::HasSubstr("uncached")); });
  EXPECT_EQ((*fs.open("/f", options))->mode(), CacheMode::kBuffered);
  set_log_sink({});
}

TEST(MemoryFileSystem, ReportsTheAlignmentItWasGiven) {
  MemoryFileSystem fs({.direct_alignment = {64, 8192}});
  OpenOptions options{.create = Create::kIfMissing, .mode = CacheMode::kDirect};
  EXPECT_EQ((*fs.open("/f", options))->alignment().offset_bytes, 8192u);
  EXPECT_EQ((*fs.open("/f", options))->alignment().memory_bytes, 64u);
}

TEST(MemoryFileSystem, TimesComeFromTheClockAndAlwaysAdvance) {
  int64_t now = 1000;
  MemoryFileSystem fs({.now_ns = [&now] { return now; }});
  create(fs, "/f");
  const int64_t first = fs.stat("/f")->mtime_ns;
  EXPECT_GE(first, 1000);
  EXPECT_LT(first, 1010);
  PENSTOCK_EXPECT_OK(write_string(*create(fs, "/f"), 0, "x"));
  EXPECT_GT(fs.stat("/f")->mtime_ns, first);
  now = 5000;
  PENSTOCK_EXPECT_OK(write_string(*create(fs, "/f"), 0, "x"));
  EXPECT_EQ(fs.stat("/f")->mtime_ns, 5000);
}

TEST(MemoryFileSystem, ACloneGoesItsOwnWay) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(write_string(*create(fs, "/f"), 0, "abc"));
  const auto open = create(fs, "/gone");
  PENSTOCK_EXPECT_OK(write_string(*open, 0, "abc"));
  PENSTOCK_EXPECT_OK(fs.remove("/gone"));
  const auto lock = fs.try_lock("/lock");
  const auto clone = fs.clone();
  PENSTOCK_EXPECT_OK(clone->try_lock("/lock"));
  EXPECT_EQ(clone->space("/")->free_bytes, fs.space("/")->free_bytes + 4096);
  EXPECT_EQ(clone->boot_id(), fs.boot_id());
  PENSTOCK_EXPECT_OK(write_string(*create(*clone, "/f"), 0, "X"));
  EXPECT_EQ(*read_file(fs, "/f", 10), "abc");
  EXPECT_EQ(*read_file(*clone, "/f", 10), "Xbc");
  PENSTOCK_EXPECT_ERROR(clone->power_cut(0)->stat("/f"), kNotFound);  // Still unsynced.
}

TEST(MemoryFileSystem, ReadsAtImpossibleOffsetsAreRefused) {
  MemoryFileSystem fs;
  const auto file = create(fs, "/f");
  std::byte byte{};
  EXPECT_EQ(*file->read(UINT64_MAX, std::span(&byte, 1)), 0u);
  PENSTOCK_EXPECT_ERROR(file->write(UINT64_MAX, std::span(&byte, 1)), kInvalid);
  PENSTOCK_EXPECT_ERROR(file->write(INT64_MAX, std::span(&byte, 1)), kNoSpace);
  PENSTOCK_EXPECT_ERROR(file->truncate(UINT64_MAX), kInvalid);
  PENSTOCK_EXPECT_ERROR(file->allocate(UINT64_MAX, 1), kInvalid);
}

TEST(MemoryFileSystem, TheRootStays) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_ERROR(fs.remove_directory("/"), kBusy);
  PENSTOCK_EXPECT_ERROR(fs.remove("/"), kInvalid);
  PENSTOCK_EXPECT_ERROR(fs.rename("/", "/a"), kBusy);
  PENSTOCK_EXPECT_ERROR(fs.make_directory("/.."), kExists);
  create(fs, "relative");
  PENSTOCK_EXPECT_OK(fs.stat("/relative"));
}

TEST(MemoryFileSystem, ThreadsMayDoAllAtOnce) {
  MemoryFileSystem fs;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&fs, t] {
      const std::string mine = "/" + std::to_string(t);
      for (int i = 0; i < 100; ++i) {
        PENSTOCK_EXPECT_OK(write_file_durably(fs, mine, mine));
        PENSTOCK_EXPECT_OK(write_file_durably(fs, "/shared", mine));
        EXPECT_EQ(*read_file(*fs.power_cut(static_cast<uint64_t>(i)), mine, 100), mine);
        EXPECT_EQ(read_file(fs, "/shared", 100)->size(), 2u);
        (void)fs.try_lock("/lock");
        PENSTOCK_EXPECT_OK(fs.list("/", [](const DirectoryEntry&) { return true; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::io
