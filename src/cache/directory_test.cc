#include "cache/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/entry_test_data.h"
#include "io/memory_file_system.h"

namespace penstock::cache {
namespace {

TEST(CacheDirectory, PublishesReadsAndDrops) {
  io::MemoryFileSystem fs;
  auto directory = CacheDirectory::open(fs, "/nvme/cache", io::CacheMode::kDirect);
  ASSERT_TRUE(directory.ok()) << directory.error().to_string();
  const EntryKey key = test_key();
  Bytes entry = make_entry(key);
  const Result<void> published = (*directory)->publish(name_of(key), std::span(entry));
  ASSERT_TRUE(published.ok()) << published.error().to_string();
  auto file = (*directory)->open_entry(name_of(key));
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  Bytes read(entry.size() + 1);
  EXPECT_EQ(*(*file)->read(0, read), entry.size());
  read.pop_back();
  EXPECT_EQ(read, entry);
  EXPECT_TRUE((*directory)->drop(name_of(key)).ok());
  EXPECT_EQ((*directory)->open_entry(name_of(key)).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace penstock::cache
