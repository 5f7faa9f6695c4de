#include "data/tar.h"

#include "data/test_support.h"

namespace penstock::data {
namespace {

struct Seen {
  std::string name;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const Seen&) const = default;
};

// As a file in memory, of which only what is wanted is looked at.
Result<std::vector<Seen>> parse(std::string_view tar) {
  std::vector<Seen> seen;
  TarParser parser([&](const TarMember& member) -> Result<void> {
    seen.push_back({std::string(member.name), member.offset, member.size});
    return {};
  });
  while (const auto wanted = parser.wants()) {
    if (wanted->end() > tar.size()) {
      PENSTOCK_TRY(parser.end_at(tar.size()));
      break;
    }
    PENSTOCK_TRY(parser.take(bytes_of(tar.substr(wanted->offset, wanted->length))));
  }
  return seen;
}

TEST(Tar, FindsTheFilesOfEveryStyle) {
  for (const TarStyle style : {TarStyle::kUstar, TarStyle::kGnu, TarStyle::kPax}) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 50; ++round) {
      TarWriter writer(style);
      std::vector<Seen> expected;
      std::vector<std::string> data;
      for (uint64_t left = random() % 20; left > 0; --left) {
        // Long names: a folder of at most 155 bytes and a name of at most 100, for ustar's sake.
        const std::string folder(random() % 3 == 0 ? random() % 150 : 1, 'd');
        const std::string name = folder + "/" + std::string(1 + random() % 90, 'n') + ".x";
        data.push_back(random_text(random() % 3 == 0 ? 512 : random() % 2000, random()));
        writer.add(name, data.back());
        const uint64_t padded = (data.back().size() + 511) / 512 * 512;
        expected.push_back({name, writer.size() - padded, data.back().size()});
      }
      for (const std::string& tar : {writer.finish(), writer.bare()}) {
        const auto seen = parse(tar);
        ASSERT_THAT(seen, IsOk());
        ASSERT_EQ(*seen, expected);
        for (size_t i = 0; i < data.size(); ++i)
          ASSERT_EQ(tar.substr((*seen)[i].offset, (*seen)[i].size), data[i]);
      }
    }
  }
}

TEST(Tar, PassesOverWhatIsNoRegularFile) {
  TarWriter writer(TarStyle::kGnu);
  writer.block("folder/", 0, '5');
  writer.block("hard.jpg", 700, '1');  // Its size is that of what it links to: no data follows.
  writer.block("soft.jpg", 0, '2');
  writer.block("label", 0, 'V');
  writer.add("unknown.jpg", "some data", 'Q');
  writer.block("././@LongLink", 5, 'K');
  writer.body(std::string("long\0", 5));
  writer.add("a.jpg", "x");
  writer.add("contiguous.jpg", "y", '7');
  writer.add("old.jpg", "z", '\0');
  writer.block("old/", 100, '\0');
  const auto seen = parse(writer.finish());
  ASSERT_THAT(seen, IsOk());
  ASSERT_EQ(seen->size(), 3);
  EXPECT_EQ((*seen)[0].name, "a.jpg");
  EXPECT_EQ((*seen)[1].name, "contiguous.jpg");
  EXPECT_EQ((*seen)[2].name, "old.jpg");
}

TEST(Tar, ExtendedHeadersSayNameAndSize) {
  TarWriter writer;
  writer.add_extended("path", "from/pax.jpg");
  writer.add_extended("size", "3");
  writer.block("other.jpg", 0, '0');
  writer.body("abc");
  writer.add("next.jpg", "d");  // They are for one file only;
  writer.add_global("path", "all.jpg");
  writer.add("x.jpg", "e");  // global ones are for all.
  writer.add("y.jpg", "f");
  const auto seen = parse(writer.finish());
  ASSERT_THAT(seen, IsOk());
  ASSERT_EQ(seen->size(), 4);
  EXPECT_EQ((*seen)[0].name, "from/pax.jpg");
  EXPECT_EQ((*seen)[0].size, 3);
  EXPECT_EQ((*seen)[1].name, "next.jpg");
  EXPECT_EQ((*seen)[2].name, "all.jpg");
  EXPECT_EQ((*seen)[3].name, "all.jpg");
}

TEST(Tar, SizesInBase256) {
  TarWriter writer(TarStyle::kGnu);
  writer.block("big.bin", 5, '0', /*base_256=*/true);
  writer.body("12345");
  const auto seen = parse(writer.finish());
  ASSERT_THAT(seen, IsOk());
  EXPECT_EQ((*seen)[0].size, 5);

  TarWriter huge(TarStyle::kGnu);
  huge.block("huge.bin", uint64_t{1} << 62, '0', /*base_256=*/true);
  EXPECT_THAT(parse(huge.finish()), FailsWith(ErrorCode::kCorrupt));
}

TEST(Tar, SparseFilesAreRefused) {
  TarWriter gnu(TarStyle::kGnu);
  gnu.add("sparse.bin", "x", 'S');
  EXPECT_THAT(parse(gnu.finish()), FailsWith(ErrorCode::kUnsupported));
  TarWriter pax;
  pax.add_extended("GNU.sparse.major", "1");
  pax.add("sparse.bin", "x");
  EXPECT_THAT(parse(pax.finish()), FailsWith(ErrorCode::kUnsupported));
}

TEST(Tar, EveryTruncationIsNoticedButAtTheEndOfAFile) {
  for (const TarStyle style : {TarStyle::kUstar, TarStyle::kGnu, TarStyle::kPax}) {
    TarWriter writer(style);
    std::vector<size_t> ends = {0};
    for (const size_t size : {size_t{5}, size_t{512}, size_t{0}, size_t{700}}) {
      writer.add("f" + std::to_string(size) + (size == 5 ? std::string(120, 'n') : "") + ".x",
                 random_text(size, size));
      ends.push_back(writer.size());
    }
    const std::string tar = writer.bare();
    for (size_t size = 0; size <= tar.size(); ++size) {
      const bool is_end = std::ranges::find(ends, size) != ends.end();
      const auto seen = parse(std::string_view(tar).substr(0, size));
      if (!is_end) {
        ASSERT_THAT(seen, FailsWith(ErrorCode::kCorrupt)) << size;
      }
      if (is_end) {
        ASSERT_THAT(seen, IsOk()) << size;
      }
    }
  }
}

TEST(Tar, FlippedBitsInHeadersAreNoticed) {
  TarWriter writer;
  writer.add("a.jpg", "data");
  const std::string tar = writer.finish();
  for (size_t at = 0; at < 512; ++at) {
    std::string damaged = tar;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const auto seen = parse(damaged);
    // Of the checksum's own padding nothing depends.
    if (at >= 148 && at < 156) continue;
    ASSERT_THAT(seen, FailsWith(ErrorCode::kCorrupt)) << at;
  }
}

TEST(Tar, RandomBytesNeverHarm) {
  std::mt19937_64 random(3);
  TarWriter writer(TarStyle::kPax);
  for (int i = 0; i < 5; ++i) writer.add("f" + std::to_string(i) + ".x", random_text(600, 1));
  for (int round = 0; round < 3000; ++round) {
    std::string tar = writer.finish().substr(0, 12'000);
    for (uint64_t left = 1 + random() % 3; left > 0; --left)
      tar[random() % tar.size()] = static_cast<char>(random());
    const auto seen = parse(tar);
    if (!seen.ok()) continue;
    for (const Seen& one : *seen) ASSERT_LE(one.offset + one.size, tar.size());
  }
}

TEST(Tar, HugeExtendedHeadersAreRefusedBeforeTheyAreRead) {
  TarWriter writer;
  writer.block("x", kMiB + 1, 'x');
  EXPECT_THAT(parse(writer.finish()), FailsWith(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace penstock::data
