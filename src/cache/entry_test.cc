#include "cache/entry.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cache/entry_header.h"
#include "cache/entry_test_data.h"

namespace penstock::cache {
namespace {

using ::testing::Each;

// Makes the entry and reads it in every way there is.
void expect_round_trip(const EntryKey& key) {
  SCOPED_TRACE(fmt::format("length {} offset {} url {} etag {}", key.length, key.offset,
                           key.version.url.size(), key.version.etag.size()));
  ASSERT_TRUE(can_be_entry(key));
  const Bytes file = make_entry(key, key.length);
  EXPECT_EQ(header_bytes(key) % kBlockBytes, 0u);
  EXPECT_LE(header_bytes(key), kHeaderBytesMax);
  EXPECT_EQ(file.size(), name_of(key).file_bytes());
  const Result<BlockSums> sums = read_header(header_of(file, key), key);
  ASSERT_TRUE(sums.ok()) << sums.error().to_string();
  const auto data = data_of(file, key);
  ASSERT_EQ(uint64_t{sums->blocks()} * kBlockBytes, data.size());
  EXPECT_TRUE(sums->verify(0, data));
  EXPECT_TRUE(sums->verify(sums->blocks() - 1, data.last(kBlockBytes)));
  EXPECT_TRUE(std::ranges::equal(data.first(key.length), random_bytes(key.length, key.length)));
  EXPECT_THAT(Bytes(data.begin() + key.length, data.end()), Each(std::byte{0}));

  BlockSums identified;
  const auto front = std::span(file).first(std::min<size_t>(file.size(), kHeaderBytesMax));
  const Result<EntryKey> who = identify_header(front, &identified);
  ASSERT_TRUE(who.ok()) << who.error().to_string();
  EXPECT_EQ(*who, key);
  EXPECT_TRUE(identified.verify(0, data));
}

TEST(Entry, RoundTripsOfAllSizes) {
  for (const uint32_t length :
       {1u, 2u, 4095u, 4096u, 4097u, 8191u, 8192u, 100'000u, 262'144u, 4u << 20, 16u << 20}) {
    expect_round_trip(test_key(length));
  }
}

TEST(Entry, IsTheSameWhenItsHashesWereMadeOnTheWay) {
  for (const uint32_t length : {1u, 4095u, 4096u, 4097u, 100'000u, 4u << 20}) {
    const EntryKey key = test_key(length);
    const Bytes expected = make_entry(key, length);
    Bytes file = expected;
    std::ranges::fill(std::span(file).first(header_bytes(key)), std::byte{0xee});
    const auto data = std::span<const std::byte>(file).subspan(header_bytes(key), length);
    BlockHashes hashes;
    EXPECT_TRUE(hashes.known().empty());
    Bytes copy(length);
    hashes.copy(copy, data);
    EXPECT_TRUE(std::ranges::equal(copy, data));
    EXPECT_EQ(hashes.known().size(), length / kBlockBytes) << "of whole blocks only";
    seal_entry(file, key, hashes.known());
    EXPECT_EQ(file, expected) << length;
  }
}

TEST(Entry, RoundTripsOfAllNames) {
  for (const size_t url_bytes : {0u, 1u, 7u, 8u, 9u, 4000u, kUrlBytesMax}) {
    for (const size_t etag_bytes : {0u, 1u, 32u, kEtagBytesMax}) {
      EntryKey key = test_key(5000);
      key.version.url.assign(url_bytes, 'u');
      key.version.etag.assign(etag_bytes, 'e');
      expect_round_trip(key);
    }
  }
  EntryKey binary = test_key(5000);
  binary.version.url = std::string("\0\xff\n/", 4);
  expect_round_trip(binary);
  EntryKey largest = test_key(kEntryLengthMax);
  largest.version.url.assign(kUrlBytesMax, 'u');
  largest.version.etag.assign(kEtagBytesMax, 'e');
  expect_round_trip(largest);
  EXPECT_LE(name_of(largest).blocks, kEntryBlocksMax);
}

// Where the header just fits, and where it needs another block.
TEST(Entry, HeaderGrowsByWholeBlocks) {
  EntryKey key = test_key(1);
  const size_t room = kBlockBytes - kFieldsBytes - 2 * sizeof(uint64_t);
  key.version.etag.clear();
  key.version.url.assign(room, 'u');
  EXPECT_EQ(header_bytes(key), kBlockBytes);
  expect_round_trip(key);
  key.version.url.push_back('u');
  EXPECT_EQ(header_bytes(key), 2 * kBlockBytes);
  expect_round_trip(key);
  EXPECT_EQ(header_bytes(test_key(4 << 20)), 3 * kBlockBytes);
}

TEST(Entry, RangesAtTheEndsOfTheObject) {
  EntryKey key = test_key(4096, 0);
  key.version.size = 4096;
  expect_round_trip(key);
  key.version.size = UINT64_MAX;
  key.offset = UINT64_MAX - 4095;
  key.length = 4095;
  expect_round_trip(key);
}

TEST(Entry, WhatCannotBeOne) {
  EXPECT_TRUE(can_be_entry(test_key()));
  const auto refused = [](auto change) {
    EntryKey key = test_key();
    change(key);
    return !can_be_entry(key);
  };
  EXPECT_TRUE(refused([](EntryKey& key) { key.length = 0; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.length = kEntryLengthMax + 1; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.offset += 1; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.version.size = key.offset + key.length - 1; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.version.size = key.offset - 1; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.offset = UINT64_MAX - 4095; }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.version.url.assign(kUrlBytesMax + 1, 'u'); }));
  EXPECT_TRUE(refused([](EntryKey& key) { key.version.etag.assign(kEtagBytesMax + 1, 'e'); }));
}

TEST(Entry, IdsDifferInEveryPart) {
  const ObjectVersion version{"url", "etag", 100};
  std::set<EntryId> ids = {version_id(version)};
  ids.insert(version_id({"urle", "tag", 100}));  // The same letters in a row.
  ids.insert(version_id({"", "urletag", 100}));
  ids.insert(version_id({"urletag", "", 100}));
  ids.insert(version_id({"etag", "url", 100}));
  ids.insert(version_id({"url", "etag", 101}));
  EXPECT_EQ(ids.size(), 6u);
  const EntryId id = version_id(version);
  for (const uint64_t offset : {0, 4096, 8192}) {
    for (const uint32_t length : {1, 4096}) ids.insert(entry_id(id, offset, length));
  }
  ids.insert(entry_id({id.low, id.high}, 0, 1));
  EXPECT_EQ(ids.size(), 13u);
  std::set<uint64_t> halves;
  for (const EntryId& each : ids) halves.insert({each.high, each.low});
  EXPECT_EQ(halves.size(), 26u);
}

TEST(Entry, NamesAreTheSameHoweverTheyAreMade) {
  const EntryKey key = test_key();
  EXPECT_EQ(name_of(key), name_of(key, version_id(key.version)));
  EXPECT_EQ(name_of(key).id, entry_id(version_id(key.version), key.offset, key.length));
}

TEST(EntryName, TextAndBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const EntryName name{{random() >> random() % 64, random() >> random() % 64},
                         static_cast<uint32_t>(1 + random() % kEntryBlocksMax)};
    EXPECT_EQ(EntryName::parse(name.text()), name) << name.text();
  }
  EXPECT_EQ((EntryName{{0x1f, 2}, 1027}.text()), "000000000000001f0000000000000002-403");
}

TEST(EntryName, OnlyProperOnesAreParsed) {
  const std::string good = "000000000000001f0000000000000002-403";
  EXPECT_TRUE(EntryName::parse(good));
  for (const std::string& bad : {
           std::string(),
           std::string("x"),
           good.substr(0, 32),
           good.substr(0, 33),
           good + "0000",
           good + " ",
           good + std::string(1, '\0'),
           " " + good.substr(1),
           std::string("000000000000001F0000000000000002-403"),
           std::string("000000000000001f0000000000000002-0403"),
           std::string("000000000000001f0000000000000002-0"),
           std::string("000000000000001f0000000000000002--1"),
           std::string("000000000000001f0000000000000002-+1"),
           std::string("000000000000001f0000000000000002-0x1"),
           std::string("000000000000001f0000000000000002_403"),
           std::string("-00000000000001f0000000000000002-403"),
           std::string("0x0000000000001f0000000000000002-403"),
           std::string("000000000000001f0000000000000002-ffffffff"),
           std::string("000000000000001f0000000000000002-10000000000000001"),
           fmt::format("000000000000001f0000000000000002-{:x}", kEntryBlocksMax + 1),
       }) {
    EXPECT_FALSE(EntryName::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace penstock::cache
