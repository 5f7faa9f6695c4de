#include "io/memory_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::io {
namespace {

TEST(MemoryFileSystem, WritesDurably) {
  MemoryFileSystem fs;
  ASSERT_TRUE(write_file_durably(fs, "/a", "hello").ok());
  EXPECT_EQ(*read_file(*fs.power_cut(0), "/a", 100), "hello");
}

}  // namespace
}  // namespace penstock::io
