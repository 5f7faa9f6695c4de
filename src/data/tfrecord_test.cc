#include "data/tfrecord.h"

#include "data/test_support.h"

namespace penstock::data {
namespace {

Result<std::vector<std::pair<uint64_t, uint64_t>>> parse_records(std::string_view file) {
  std::vector<std::pair<uint64_t, uint64_t>> records;
  TfRecordParser parser([&](uint64_t offset, uint64_t size) -> Result<void> {
    records.emplace_back(offset, size);
    return {};
  });
  while (const auto wanted = parser.wants()) {
    if (wanted->end() > file.size()) {
      PENSTOCK_TRY(parser.end_at(file.size()));
      break;
    }
    PENSTOCK_TRY(parser.take(bytes_of(file.substr(wanted->offset, wanted->length))));
  }
  return records;
}

TEST(TfRecord, MasksItsChecksums) {
  EXPECT_EQ(mask_crc(0xe3069283), 0xc78ab0e5);
}

TEST(TfRecord, KnownRecord) {
  const std::string record(
      "\x03\0\0\0\0\0\0\0\xb0\x99\x49\x0e"
      "abc"
      "\x6e\x57\xf1\x21",
      19);
  EXPECT_EQ(tf_record("abc"), record);
  const auto data = verify_record(bytes_of(record));
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->data(), bytes_of(record).data() + 12);
}

TEST(TfRecord, FindsAllRecords) {
  std::string file;
  std::vector<std::pair<uint64_t, uint64_t>> expected;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, size_t{12}}) {
    expected.emplace_back(file.size(), size + 16);
    file += tf_record(random_text(size, size));
  }
  const auto records = parse_records(file);
  ASSERT_THAT(records, IsOk());
  EXPECT_EQ(*records, expected);
  EXPECT_THAT(parse_records(""), IsOk());
}

TEST(TfRecord, EveryTruncationIsNoticed) {
  const std::string file = tf_record("abc") + tf_record("") + tf_record(random_text(40, 1));
  for (size_t size = 0; size <= file.size(); ++size) {
    const bool is_end = size == 0 || size == 19 || size == 35 || size == file.size();
    const auto records = parse_records(std::string_view(file).substr(0, size));
    if (is_end) {
      ASSERT_THAT(records, IsOk()) << size;
    }
    if (!is_end) {
      ASSERT_THAT(records, FailsWith(ErrorCode::kCorrupt)) << size;
    }
  }
}

TEST(TfRecord, EveryFlippedBitIsNoticed) {
  const std::string record = tf_record(random_text(50, 1));
  for (size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << (bit % 8));
    ASSERT_THAT(verify_record(bytes_of(damaged)), FailsWith(ErrorCode::kCorrupt)) << bit;
    if (bit < 96) {
      ASSERT_THAT(parse_records(damaged), FailsWith(ErrorCode::kCorrupt)) << bit;
    }
  }
  for (size_t size = 0; size < record.size(); ++size)
    ASSERT_THAT(verify_record(bytes_of(record.substr(0, size))), FailsWith(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace penstock::data
