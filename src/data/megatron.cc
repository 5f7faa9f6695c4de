#include "data/megatron.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "data/addresses.h"
#include "data/filled_parts.h"
#include "data/source.h"
#include "io/completion_thread.h"
#include "store/selection.h"

namespace penstock::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the arrays are used as they lie");

constexpr std::array<char, 9> kMegatronMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr size_t kHeaderBytes = 34;
constexpr uint64_t kReadBytes = 8 * kMiB;

struct TypeFacts {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeFacts, 9> kTypes = {{{"", 0},
                                              {"uint8", 1},
                                              {"int8", 1},
                                              {"int16", 2},
                                              {"int32", 4},
                                              {"int64", 8},
                                              {"float64", 8},
                                              {"float32", 4},
                                              {"uint16", 2}}};

Error corrupt_corpus(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("index of Megatron: {}", what));
}

template <typename T>
T number_at(const std::byte* at) {
  T value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

std::string_view token_type_name(TokenType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

size_t token_bytes(TokenType type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}

template <typename T>
T TokenIndex::value(uint64_t array_at, uint64_t i) const {
  return number_at<T>(arrays_.data() + array_at + i * sizeof(T));
}

uint32_t TokenIndex::length(uint64_t sequence) const {
  assert(sequence < sequences_);
  return value<uint32_t>(0, sequence);
}

uint64_t TokenIndex::offset(uint64_t sequence) const {
  assert(sequence < sequences_);
  return value<uint64_t>(4 * sequences_, sequence);
}

uint64_t TokenIndex::document_begin(uint64_t document) const {
  assert(document < entries_);
  return value<uint64_t>(12 * sequences_, document);
}

Result<TokenIndex> TokenIndex::load(uint64_t idx_bytes, uint64_t bin_bytes, const Read& read) {
  std::array<std::byte, kHeaderBytes> header{};
  if (idx_bytes < header.size()) return corrupt_corpus("cut off");
  PENSTOCK_TRY(read(0, header));
  if (std::memcmp(header.data(), kMegatronMagic.data(), kMegatronMagic.size()) != 0)
    return corrupt_corpus("not one");
  const auto version = number_at<uint64_t>(header.data() + 9);
  if (version != 1) return corrupt_corpus(fmt::format("version {} is not known", version));
  const auto code = std::to_integer<uint8_t>(header[17]);
  if (code == 0 || code >= kTypes.size()) return corrupt_corpus(fmt::format("no type {}", code));

  TokenIndex index;
  index.type_ = static_cast<TokenType>(code);
  index.sequences_ = number_at<uint64_t>(header.data() + 18);
  index.entries_ = number_at<uint64_t>(header.data() + 26);
  const uint64_t room = idx_bytes - header.size();
  if (index.sequences_ > room / 12 || index.entries_ > (room - 12 * index.sequences_) / 8) {
    return corrupt_corpus("cut off");
  }
  const uint64_t bytes = 12 * index.sequences_ + 8 * index.entries_;
  // Multimodal ones have a byte per sequence behind it, which is of no use here.
  if (room != bytes && room != bytes + index.sequences_)
    return corrupt_corpus("its length is wrong");
  index.arrays_.resize(bytes);
  for (uint64_t at = 0; at < bytes; at += kReadBytes) {
    const uint64_t step = std::min(kReadBytes, bytes - at);
    PENSTOCK_TRY(read(header.size() + at, std::span(index.arrays_).subspan(at, step)));
  }
  PENSTOCK_TRY(index.settle_type(bin_bytes));
  PENSTOCK_TRY(index.check(bin_bytes));
  return index;
}

// Old writers gave floats of 4 and of 8 bytes each other's code: the size of the tokens tells.
Result<void> TokenIndex::settle_type(uint64_t bin_bytes) {
  if (type_ != TokenType::kFloat64 && type_ != TokenType::kFloat32) return {};
  uint64_t tokens = 0;
  for (uint64_t i = 0; i < sequences_; ++i) tokens += length(i);
  for (const TokenType type : {TokenType::kFloat64, TokenType::kFloat32}) {
    if (tokens == 0 || tokens > bin_bytes || tokens * token_bytes(type) != bin_bytes) continue;
    type_ = type;
    return {};
  }
  return corrupt_corpus("it cannot be told whether the tokens are of 4 or of 8 bytes");
}

Result<void> TokenIndex::check(uint64_t bin_bytes) const {
  const uint64_t size = token_bytes(type_);
  for (uint64_t i = 0; i < sequences_; ++i) {
    const uint64_t bytes = length(i) * size;
    if (length(i) > INT32_MAX || offset(i) > bin_bytes || bytes > bin_bytes - offset(i)) {
      return corrupt_corpus(
          fmt::format("sequence {} is not in the .bin of {} bytes", i, bin_bytes));
    }
  }
  uint64_t before = 0;
  for (uint64_t i = 0; i < entries_; ++i) {
    if (document_begin(i) < before) return corrupt_corpus("documents that are not in order");
    before = document_begin(i);
  }
  const bool all = entries_ == 0 ? sequences_ == 0 : document_begin(0) == 0 && before == sequences_;
  return all ? Result<void>() : corrupt_corpus("its documents are not all of its sequences");
}

namespace {

class TokenFileImpl final : public TokenFile {
 public:
  TokenFileImpl(Source source, TokenIndex index)
      : source_(std::move(source)), index_(std::move(index)) {}
  Result<void> open_bin(const store::ObjectInfo& bin, io::CacheMode mode) {
    bin_ = PENSTOCK_TRY(open_shard_file(source_, bin, mode));
    object_ = bin;
    if (!source_.far && mode == io::CacheMode::kBuffered) map_ = bin_->map();
    return {};
  }

  TokenType type() const override { return index_.type(); }
  uint64_t sequences() const override { return index_.sequences(); }
  uint64_t documents() const override { return index_.documents(); }
  uint64_t bytes() const override { return bin_->size(); }
  uint32_t length(uint64_t sequence) const override { return index_.length(sequence); }
  uint64_t offset(uint64_t sequence) const override { return index_.offset(sequence); }
  uint64_t document_begin(uint64_t document) const override {
    return index_.document_begin(document);
  }

  Result<void> read(uint64_t sequence, uint64_t first, std::span<std::byte> into) override {
    const uint64_t size = token_bytes(type());
    const uint64_t tokens = into.size() / size;
    const bool within = sequence < sequences() && into.size() % size == 0 &&
                        first <= length(sequence) && tokens <= length(sequence) - first;
    if (!within) {
      return make_error(ErrorCode::kInvalid, fmt::format("{}: sequence {} has no {} tokens at {}",
                                                         bin_->name(), sequence, tokens, first));
    }
    return bin_->read(offset(sequence) + first * size, into);
  }

  bool local() const override { return !bin_->is_remote(); }
  bool far() const override { return source_.far; }
  void stop_reads() override { source_.stop.request_stop(); }
  const std::string& name() const override { return bin_->name(); }
  const store::ObjectInfo& object() const override { return object_; }
  std::unique_ptr<cache::Stager> make_stager(const cache::StageOptions& options) override {
    return source_.cached == nullptr ? nullptr : source_.cached->make_stager(options);
  }
  Result<void> read_bytes(uint64_t offset, std::span<std::byte> into) override {
    if (map_ == nullptr) return bin_->read(offset, into);
    PENSTOCK_TRY(check_range(bin_->name(), bin_->size(), offset, into.size()));
    std::memcpy(into.data(), map_->bytes().data() + offset, into.size());
    return map_->lost() ? Result<void>(short_read(bin_->name(), offset, into.size()))
                        : Result<void>();
  }
  Result<void> check_size() override { return bin_->check_size(); }
  void fill_page_cache(uint64_t offset, uint64_t length) override {
    if (map_ == nullptr) return;
    if (filled_.empty()) map_->expect_all();
    filled_.add(bin_->size(), offset, length,
                [this](uint64_t begin, uint64_t bytes) { bin_->fill_page_cache(begin, bytes); });
  }
  void async_read(uint64_t offset, io::MemorySlice into,
                  std::function<void(Result<void>)> done) override {
    Result<void> checked = check_range(bin_->name(), bin_->size(), offset, into.size);
    if (checked.ok()) return bin_->start_read(offset, into, std::move(done));
    io::CompletionThread::Item item;
    item.done = [checked, done = std::move(done)](Result<size_t>) { done(checked); };
    answers_.post(std::move(item));
  }

 private:
  Source source_;
  const TokenIndex index_;
  store::ObjectInfo object_;
  std::unique_ptr<ShardFile> bin_;
  std::unique_ptr<io::FileMap> map_;  // Of it, or null.
  FilledParts filled_;
  io::CompletionThread answers_;
};

std::string without_ending(const std::string& address) {
  const bool has = address.ends_with(".bin") || address.ends_with(".idx");
  return has ? address.substr(0, address.size() - 4) : address;
}

}  // namespace

Result<std::unique_ptr<TokenFile>> TokenFile::open(const std::string& address,
                                                   const OpenOptions& options) {
  io::FileSystem* fs = options.file_system;
  if (fs == nullptr) fs = PENSTOCK_TRY(io::process_file_system());
  const bool real = options.file_system == nullptr;
  const std::string prefix =
      without_ending(real ? PENSTOCK_TRY(make_path_absolute(address)) : address);
  const auto selection =
      PENSTOCK_TRY(store::Selection::parse({prefix + ".bin", prefix + ".idx"}, *fs));
  Source source =
      PENSTOCK_TRY(open_source(selection.stores()[0], *fs, real, options.s3, options.cache));
  store::CallOptions call;
  call.cancel = options.cancel;
  std::vector<store::ObjectInfo> objects;
  const std::vector<store::ObjectStore*> stores = {source.store.get()};
  PENSTOCK_TRY(selection.for_each(
      stores,
      [&](size_t, const store::ObjectInfo& object) {
        objects.push_back(object);
        return true;
      },
      [](const std::string&) {}, call));
  if (objects.size() != 2) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{0}.bin and {0}.idx are needed, and are not there", prefix));
  }
  const std::unique_ptr<ShardFile> idx =
      PENSTOCK_TRY(open_shard_file(source, objects[1], io::CacheMode::kBuffered, options.cancel));
  Result<TokenIndex> index = TokenIndex::load(
      objects[1].size, objects[0].size,
      [&](uint64_t offset, std::span<std::byte> into) { return idx->read(offset, into); });
  if (!index.ok()) return index.error().with_context(idx->name());
  auto tokens = std::make_unique<TokenFileImpl>(std::move(source), std::move(*index));
  PENSTOCK_TRY(tokens->open_bin(objects[0], options.mode));
  return std::unique_ptr<TokenFile>(std::move(tokens));
}

}  // namespace penstock::data
