// Whatever happened to an entry, no wrong byte of it is ever accepted.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "cache/entry.h"
#include "cache/entry_header.h"
#include "cache/entry_test_data.h"

namespace penstock::cache {
namespace {

template <typename T>
ErrorCode code_of(const Result<T>& result) {
  return result.ok() ? ErrorCode::kClosed : result.error().code;  // Which none of them gives.
}

Bytes changed(Bytes file, const std::function<void(HeaderFields&)>& change, bool seal = true) {
  HeaderFields fields;
  std::memcpy(&fields, file.data(), kFieldsBytes);
  change(fields);
  std::memcpy(file.data(), &fields, kFieldsBytes);
  if (seal) seal_header(file);
  return file;
}

size_t sums_at(const EntryKey& key) {
  return (kFieldsBytes + key.version.url.size() + key.version.etag.size() + 7) / 8 * 8;
}

class EntryDamage : public ::testing::Test {
 protected:
  ErrorCode read_error(std::span<const std::byte> header) const {
    return code_of(read_header(header, key_));
  }
  ErrorCode identify_error(std::span<const std::byte> header) const {
    return code_of(identify_header(header));
  }
  BlockSums sums() const { return *read_header(header_of(file_, key_), key_); }
  // What a change of the fields by somebody who knows the checksums leads to.
  ErrorCode forged(const std::function<void(HeaderFields&)>& change) const {
    const Bytes file = changed(file_, change);
    const ErrorCode error = read_error(header_of(file, key_));
    EXPECT_EQ(identify_error(std::span(file).first(kBlockBytes)), error);
    return error;
  }

  const EntryKey key_ = test_key(5000);
  const Bytes file_ = make_entry(key_);
};

TEST_F(EntryDamage, EveryBitOfTheHeader) {
  Bytes file = file_;
  for (size_t bit = 0; bit < size_t{header_bytes(key_)} * 8; ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_EQ(read_error(header_of(file, key_)), ErrorCode::kCorrupt) << bit;
    ASSERT_EQ(identify_error(file), ErrorCode::kCorrupt) << bit;
    file[bit / 8] = file_[bit / 8];
  }
}

TEST_F(EntryDamage, EveryValueOfEveryUsedByteOfTheHeader) {
  Bytes file = file_;
  for (size_t at = 0; at < 200; ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      if (file_[at] == std::byte{static_cast<uint8_t>(value)}) continue;
      file[at] = std::byte{static_cast<uint8_t>(value)};
      ASSERT_EQ(read_error(header_of(file, key_)), ErrorCode::kCorrupt) << at << " = " << value;
    }
    file[at] = file_[at];
  }
}

TEST_F(EntryDamage, EveryBitOfTheData) {
  const BlockSums sums = this->sums();
  ASSERT_EQ(sums.blocks(), 2u);
  const auto original = data_of(file_, key_);
  Bytes data(original.begin(), original.end());
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {  // The padding is covered too.
    data[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const auto block = static_cast<uint32_t>(bit / 8 / kBlockBytes);
    const auto each = std::span(data);
    ASSERT_FALSE(sums.verify(0, data)) << bit;
    ASSERT_FALSE(sums.verify(block, each.subspan(block * kBlockBytes, kBlockBytes))) << bit;
    ASSERT_TRUE(sums.verify(1 - block, each.subspan((1 - block) * kBlockBytes, kBlockBytes)));
    data[bit / 8] = original[bit / 8];
  }
}

// What a power cut leaves: sectors of zeros, or of what was there before.
TEST_F(EntryDamage, EveryTornSector) {
  constexpr size_t kSector = 512;
  const Bytes before = make_entry(test_key(5000, 0), 2);
  const BlockSums sums = this->sums();
  for (const Bytes& old : {Bytes(file_.size()), before}) {
    for (size_t at = 0; at < file_.size(); at += kSector) {
      Bytes file = file_;
      std::copy_n(old.begin() + at, kSector, file.begin() + at);
      if (file == file_) continue;  // It was zeros anyway.
      const bool header_good = read_header(header_of(file, key_), key_).ok();
      EXPECT_NE(header_good, at < header_bytes(key_)) << at;
      EXPECT_EQ(sums.verify(0, data_of(file, key_)), at < header_bytes(key_)) << at;
    }
  }
}

TEST_F(EntryDamage, EveryLengthOfAHeaderCutShort) {
  const EntryKey key = test_key(4 << 20);  // Three blocks.
  const Bytes file = make_entry(key);
  for (size_t length = 0; length < header_bytes(key); length += length < 100 ? 1 : 509) {
    const Bytes header(file.begin(), file.begin() + length);  // Its own, for AddressSanitizer.
    EXPECT_EQ(code_of(read_header(header, key)), ErrorCode::kCorrupt) << length;
    EXPECT_EQ(identify_error(header), ErrorCode::kCorrupt) << length;
  }
}

TEST_F(EntryDamage, RightBlocksInWrongPlaces) {
  const EntryKey key = test_key(4 * kBlockBytes);
  const Bytes file = make_entry(key);
  const BlockSums sums = *read_header(header_of(file, key), key);
  const auto data = data_of(file, key);
  for (uint32_t from = 0; from < 4; ++from) {
    for (uint32_t to = 0; to < 4; ++to) {
      const auto block = data.subspan(from * kBlockBytes, kBlockBytes);
      EXPECT_EQ(sums.verify(to, block), from == to) << from << " at " << to;
    }
  }
  EXPECT_FALSE(sums.verify(1, data.first(2 * kBlockBytes)));
}

// Blocks of zeros are everywhere alike; only their checksums tell where they belong.
TEST_F(EntryDamage, EqualBlocksHaveChecksumsOfTheirOwn) {
  const EntryKey key = test_key(3 * kBlockBytes);
  Bytes file(file_bytes(key));
  seal_entry(file, key);
  EXPECT_TRUE(read_header(header_of(file, key), key)->verify(0, data_of(file, key)));
  const auto first = file.begin() + sums_at(key);
  std::swap_ranges(first, first + 8, first + 8);
  seal_header(file);
  EXPECT_FALSE(read_header(header_of(file, key), key)->verify(0, data_of(file, key)));
}

TEST_F(EntryDamage, VerifyTakesOnlyBlocksThatThereAre) {
  const BlockSums sums = this->sums();
  const auto data = data_of(file_, key_);
  EXPECT_TRUE(sums.verify(0, data));
  EXPECT_FALSE(sums.verify(0, {}));
  EXPECT_FALSE(sums.verify(0, data.first(5000)));
  EXPECT_FALSE(sums.verify(0, data.first(data.size() - 1)));
  EXPECT_FALSE(sums.verify(0, std::span(file_)));
  EXPECT_FALSE(sums.verify(1, data));
  EXPECT_FALSE(sums.verify(2, data.first(kBlockBytes)));
  EXPECT_FALSE(sums.verify(3, data.first(kBlockBytes)));
  EXPECT_FALSE(sums.verify(UINT32_MAX, data));
  EXPECT_FALSE(BlockSums().verify(0, data));
}

TEST_F(EntryDamage, AnotherEntryIsNotThisOne) {
  const auto other = [&](const std::function<void(EntryKey&)>& change) {
    EntryKey key = key_;
    change(key);
    const Bytes file = make_entry(key);
    const auto read = std::min<size_t>(header_bytes(key_), file.size());
    EXPECT_EQ(read_error(std::span(file).first(read)), ErrorCode::kNotFound);
  };
  other([](EntryKey& key) { key.version.url[3] ^= 1; });
  other([](EntryKey& key) { key.version.url += "x"; });
  other([](EntryKey& key) { key.version.url = std::string(5000, 'x'); });  // A longer header.
  other([](EntryKey& key) { key.version.etag[3] ^= 1; });
  other([](EntryKey& key) { key.version.etag.pop_back(); });
  other([](EntryKey& key) { key.version.size += 1; });
  other([](EntryKey& key) { key.offset += kBlockBytes; });
  other([](EntryKey& key) { key.length += 1; });
  other([](EntryKey& key) { key.length = 16 << 20; });
  other([](EntryKey& key) {  // The same letters, divided in another place.
    key.version.url.push_back(key.version.etag.front());
    key.version.etag.erase(0, 1);
  });
}

TEST_F(EntryDamage, PartsOfTwoHeadersDoNotFitTogether) {
  EntryKey other = key_;
  other.version.etag[5] ^= 1;
  other.offset += kBlockBytes;
  const Bytes theirs = make_entry(other);  // With the same data.
  ASSERT_TRUE(std::ranges::equal(data_of(theirs, other), data_of(file_, key_)));
  for (const size_t at : {kFieldsBytes, size_t{80}, sums_at(key_), sums_at(key_) + 8}) {
    Bytes mixed = theirs;
    std::copy_n(file_.begin(), at, mixed.begin());
    EXPECT_EQ(read_error(header_of(mixed, key_)), ErrorCode::kCorrupt) << at;
    EXPECT_EQ(identify_error(mixed), ErrorCode::kCorrupt) << at;
  }
  // Their checksums are not ours even where the bytes are alike.
  Bytes mixed = file_;
  std::copy_n(theirs.begin() + sums_at(key_), 16, mixed.begin() + sums_at(key_));
  seal_header(mixed);
  EXPECT_FALSE(read_header(header_of(mixed, key_), key_)->verify(0, data_of(file_, key_)));
}

TEST_F(EntryDamage, NewerVersionsAreToldFromDamage) {
  EXPECT_EQ(forged([](HeaderFields&) {}), ErrorCode::kClosed);
  EXPECT_EQ(forged([](HeaderFields& f) { f.version = 2; }), ErrorCode::kUnsupported);
  EXPECT_EQ(forged([](HeaderFields& f) { f.version = UINT32_MAX; }), ErrorCode::kUnsupported);
  EXPECT_EQ(forged([](HeaderFields& f) { f.incompatible = 1u << 31; }), ErrorCode::kUnsupported);
  EXPECT_EQ(forged([](HeaderFields& f) { f.version = 0; }), ErrorCode::kCorrupt);
  // One whose header we would read too short, and whose fields mean something else.
  EXPECT_EQ(forged([](HeaderFields& f) {
              f.version = 2;
              f.header_bytes = 1u << 20;
              f.url_bytes = UINT32_MAX;
            }),
            ErrorCode::kUnsupported);
  const Bytes damaged = changed(
      file_, [](HeaderFields& f) { f.version = 2; }, /*seal=*/false);
  EXPECT_EQ(read_error(header_of(damaged, key_)), ErrorCode::kCorrupt);
}

TEST_F(EntryDamage, FeaturesThatMayBeIgnoredAre) {
  const auto unknown = [](HeaderFields& f) { f.compatible = 1u << 7; };
  Bytes file = changed(file_, unknown);
  EXPECT_EQ(read_error(header_of(file, key_)), ErrorCode::kClosed);
  const size_t spare = header_bytes(key_) - 16;
  file[spare] = std::byte{1};  // Theirs to use.
  seal_header(file);
  const Result<BlockSums> sums = read_header(header_of(file, key_), key_);
  ASSERT_TRUE(sums.ok()) << sums.error().to_string();
  EXPECT_TRUE(sums->verify(0, data_of(file, key_)));

  Bytes plain = file_;
  plain[spare] = std::byte{1};
  seal_header(plain);
  EXPECT_EQ(read_error(header_of(plain, key_)), ErrorCode::kCorrupt);
}

TEST_F(EntryDamage, ClaimsThatMakeNoSense) {
  const auto corrupt = [&](const std::function<void(HeaderFields&)>& change) {
    return forged(change) == ErrorCode::kCorrupt;
  };
  for (const uint32_t bytes : {0u, 1u, 4095u, 4097u, 8192u, 65536u, UINT32_MAX, 1u << 31}) {
    EXPECT_TRUE(corrupt([&](HeaderFields& f) { f.header_bytes = bytes; })) << bytes;
  }
  for (const uint32_t bytes : {kUrlBytesMax + 1, UINT32_MAX, UINT32_MAX - 47}) {
    EXPECT_TRUE(corrupt([&](HeaderFields& f) { f.url_bytes = bytes; })) << bytes;
    EXPECT_TRUE(corrupt([&](HeaderFields& f) { f.etag_bytes = bytes; })) << bytes;
  }
  for (const uint32_t length : {0u, kEntryLengthMax + 1, kEntryLengthMax, UINT32_MAX}) {
    EXPECT_TRUE(corrupt([&](HeaderFields& f) { f.length = length; })) << length;
  }
  EXPECT_TRUE(corrupt([](HeaderFields& f) { f.offset = 1; }));
  EXPECT_TRUE(corrupt([](HeaderFields& f) { f.offset = UINT64_MAX - 4095; }));
  EXPECT_TRUE(corrupt([](HeaderFields& f) { f.object_size = 5000; }));
  EXPECT_TRUE(corrupt([](HeaderFields& f) { f.magic[0] = 'Q'; }));
}

TEST_F(EntryDamage, GarbageIsNoHeader) {
  for (const size_t size : {0u, 1u, 55u, 56u, 4095u, 4096u, kHeaderBytesMax}) {
    EXPECT_EQ(identify_error(Bytes(size)), ErrorCode::kCorrupt);
    EXPECT_EQ(identify_error(Bytes(size, std::byte{0xff})), ErrorCode::kCorrupt);
    EXPECT_EQ(identify_error(random_bytes(size, size)), ErrorCode::kCorrupt);
    EXPECT_EQ(read_error(random_bytes(size, size + 1)), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace penstock::cache
