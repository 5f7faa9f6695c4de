#include "data/loose.h"

#include <gtest/gtest.h>

#include <map>

#include "base/result_matchers.h"

namespace penstock::data {
namespace {

// By the path below the folder: the etag of each member.
std::map<std::string, std::string> etags_of(const LooseShard& shard) {
  std::map<std::string, std::string> all;
  for (uint32_t i = 0; i < shard.index->samples(); ++i) {
    for (size_t m = 0; m < shard.index->members(i).size(); ++m)
      all[shard.index->path(i, m)] = shard.etags.at(shard.index->member_number(i, m));
  }
  return all;
}

TEST(Loose, EveryFileHasItsOwnEtag) {
  const auto shards = group_files({{"x/b.txt", 1, "b-txt"},
                                   {"x/README", 1, "none of a sample"},
                                   {"x/a.jpg", 1, "a-jpg"},
                                   {"x/__meta__", 1, "neither"},
                                   {"x/a.cls", 1, "a-cls"},
                                   {"c.txt", 1, ""}});
  ASSERT_THAT(shards, IsOk());
  ASSERT_EQ(shards->size(), 2U);
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(etags_of((*shards)[0]), (Map{{"c.txt", ""}}));
  EXPECT_EQ(etags_of((*shards)[1]),
            (Map{{"a.cls", "a-cls"}, {"a.jpg", "a-jpg"}, {"b.txt", "b-txt"}}));
}

TEST(Loose, OfClassesToo) {
  const auto shards = group_classes({{"cat/2.jpg", 1, "c2"},
                                     {"cat/notes.txt", 1, "no image"},
                                     {"ant/1.png", 1, "a1"},
                                     {"cat/deep/1.jpg", 1, "cd1"}},
                                    "", {"ant", "cat"});
  ASSERT_THAT(shards, IsOk());
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(etags_of((*shards)[0]), (Map{{"1.png", "a1"}}));
  EXPECT_EQ(etags_of((*shards)[1]), (Map{{"2.jpg", "c2"}, {"deep/1.jpg", "cd1"}}));
}

TEST(Loose, FilesOfThisMachineKeepNone) {
  const auto shards = group_files({{"a.txt", 1, std::nullopt}});
  ASSERT_THAT(shards, IsOk());
  EXPECT_EQ((*shards)[0].etags.at(0), "");
  EXPECT_EQ((*shards)[0].etags.memory_bytes(), std::string().capacity());
}

}  // namespace
}  // namespace penstock::data
