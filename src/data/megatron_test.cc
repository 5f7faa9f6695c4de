#include "data/megatron.h"

#include <future>

#include "data/test_support.h"

namespace penstock::data {
namespace {

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

struct Corpus {
  uint8_t code = 8;
  size_t token = 2;
  std::vector<int32_t> lengths = {3, 0, 5};
  std::vector<int64_t> documents = {0, 2, 3};
  bool modes = false;

  std::string idx() const {
    std::string out("MMIDIDX\0\0", 9);
    append<uint64_t>(out, 1);
    append(out, code);
    append<uint64_t>(out, lengths.size());
    append<uint64_t>(out, documents.size());
    for (const int32_t length : lengths) append(out, length);
    int64_t at = 0;
    for (const int32_t length : lengths) {
      append(out, at);
      at += length * static_cast<int64_t>(token);
    }
    for (const int64_t document : documents) append(out, document);
    if (modes) out.append(lengths.size(), '\1');
    return out;
  }
  std::string bin() const {
    size_t tokens = 0;
    for (const int32_t length : lengths) tokens += static_cast<size_t>(length);
    return random_text(tokens * token, 1);
  }
};

Result<TokenIndex> load(const std::string& idx, uint64_t bin_bytes) {
  return TokenIndex::load(idx.size(), bin_bytes, [&](uint64_t offset, std::span<std::byte> into) {
    EXPECT_LE(offset + into.size(), idx.size());
    std::memcpy(into.data(), idx.data() + offset, into.size());
    return Result<void>();
  });
}

class TokenFileTest : public ::testing::Test {
 protected:
  void write(const Corpus& corpus) {
    write_file(fs_, "/data/corpus.idx", corpus.idx());
    write_file(fs_, "/data/corpus.bin", corpus.bin());
  }
  Result<std::unique_ptr<TokenFile>> open(const std::string& address) {
    OpenOptions options;
    options.file_system = &fs_;
    return TokenFile::open(address, options);
  }
  io::MemoryFileSystem fs_;
};

TEST_F(TokenFileTest, ReadsTokens) {
  const Corpus corpus;
  write(corpus);
  for (const char* address : {"/data/corpus", "/data/corpus.bin", "tree:/data/corpus.idx"}) {
    const auto tokens = open(address);
    ASSERT_THAT(tokens, IsOk());
    TokenFile& file = **tokens;
    EXPECT_EQ(token_type_name(file.type()), "uint16");
    EXPECT_EQ(file.sequences(), 3);
    EXPECT_EQ(file.documents(), 2);
    EXPECT_EQ(file.document_begin(1), 2);
    EXPECT_EQ(file.document_begin(2), 3);
    EXPECT_EQ(file.length(2), 5);
    EXPECT_EQ(file.offset(2), 6);
    std::string into(6, '\0');
    const auto bytes = std::as_writable_bytes(std::span(into));
    ASSERT_THAT(file.read(2, 1, bytes), IsOk());
    EXPECT_EQ(into, corpus.bin().substr(8, 6));
    EXPECT_THAT(file.read(2, 3, bytes), FailsWith(ErrorCode::kInvalid));
    EXPECT_THAT(file.read(2, 0, bytes.first(3)), FailsWith(ErrorCode::kInvalid));
    EXPECT_THAT(file.read(3, 0, bytes), FailsWith(ErrorCode::kInvalid));
    std::promise<Result<void>> promise;
    file.async_read(10, bytes, [&](Result<void> read) { promise.set_value(std::move(read)); });
    ASSERT_THAT(promise.get_future().get(), IsOk());
    EXPECT_EQ(into, corpus.bin().substr(10, 6));
  }
}

TEST_F(TokenFileTest, BothFilesAreNeeded) {
  const Corpus corpus;
  write_file(fs_, "/data/corpus.idx", corpus.idx());
  EXPECT_THAT(open("/data/corpus"), FailsWith(ErrorCode::kNotFound));
}

TEST(TokenIndex, ModesAreIgnored) {
  Corpus corpus;
  corpus.modes = true;
  EXPECT_THAT(load(corpus.idx(), corpus.bin().size()), IsOk());
}

TEST(TokenIndex, FloatsAreToldApartByTheirSize) {
  for (const uint8_t code : {uint8_t{6}, uint8_t{7}}) {
    Corpus corpus;
    corpus.code = code;
    corpus.token = 4;
    auto index = load(corpus.idx(), corpus.bin().size());
    ASSERT_THAT(index, IsOk());
    EXPECT_EQ(index->type(), TokenType::kFloat32);
    corpus.token = 8;
    index = load(corpus.idx(), corpus.bin().size());
    ASSERT_THAT(index, IsOk());
    EXPECT_EQ(index->type(), TokenType::kFloat64);
    EXPECT_THAT(load(corpus.idx(), corpus.bin().size() - 1), FailsWith(ErrorCode::kCorrupt));
  }
}

TEST(TokenIndex, WhatIsNotInTheFileIsRefused) {
  const Corpus corpus;
  const std::string idx = corpus.idx();
  EXPECT_THAT(load(idx, corpus.bin().size() - 1), FailsWith(ErrorCode::kCorrupt));
  for (size_t size = 0; size < idx.size(); ++size)
    ASSERT_THAT(load(idx.substr(0, size), 100), FailsWith(ErrorCode::kCorrupt)) << size;
  Corpus disordered = corpus;
  for (const std::vector<int64_t>& documents :
       {std::vector<int64_t>{0, 3, 2}, {1, 3}, {0, 2}, {0, -1, 3}, {}}) {
    disordered.documents = documents;
    ASSERT_THAT(load(disordered.idx(), 100), FailsWith(ErrorCode::kCorrupt));
  }
  Corpus negative = corpus;
  negative.lengths = {-1, 0, 5};
  ASSERT_THAT(load(negative.idx(), 100), FailsWith(ErrorCode::kCorrupt));
}

TEST(TokenIndex, DamageNeverHarms) {
  const Corpus corpus;
  const std::string idx = corpus.idx();
  for (size_t bit = 0; bit < idx.size() * 8; ++bit) {
    std::string damaged = idx;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << (bit % 8));
    const auto index = load(damaged, 16);
    if (!index.ok()) continue;
    for (uint64_t i = 0; i < index->sequences(); ++i)
      ASSERT_LE(index->offset(i) + index->length(i) * token_bytes(index->type()), 16);
  }
}

}  // namespace
}  // namespace penstock::data
