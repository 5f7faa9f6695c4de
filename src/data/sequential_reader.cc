#include "data/sequential_reader.h"

#include <fmt/core.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace penstock::data {

namespace {

constexpr size_t kInputBytes = 256 * kKiB;
constexpr size_t kSkipBytes = 256 * kKiB;

// The shard's own bytes, piece by piece.
class Input {
 public:
  explicit Input(WindowReader& reader) : reader_(reader) {}
  // Nothing at the end.
  Result<std::span<const std::byte>> next() {
    const size_t bytes = std::min<uint64_t>(kInputBytes, reader_.size() - at_);
    if (bytes == 0) return std::span<const std::byte>();
    const auto piece = PENSTOCK_TRY(reader_.at(at_, bytes));
    at_ += bytes;
    return piece;
  }
  uint64_t offset() const { return at_; }
  const std::string& name() const { return reader_.name(); }

 private:
  WindowReader& reader_;
  uint64_t at_ = 0;
};

class PlainReader final : public SequentialReader {
 public:
  explicit PlainReader(WindowReader& input) : input_(input) {}

  Result<size_t> read(std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size() && at_ < input_.size()) {
      const size_t bytes =
          std::min<uint64_t>({into.size() - done, input_.size() - at_, kInputBytes});
      const auto piece = PENSTOCK_TRY(input_.at(at_, bytes));
      std::ranges::copy(piece, into.begin() + static_cast<ptrdiff_t>(done));
      done += bytes;
      at_ += bytes;
    }
    return done;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t skipped = std::min(bytes, input_.size() - at_);
    at_ += skipped;
    return skipped;
  }
  uint64_t offset() const override { return at_; }

 private:
  WindowReader& input_;
  uint64_t at_ = 0;
};

// What gzip and zstd have in common: `step` makes something of the input at hand.
class DecompressingReader : public SequentialReader {
 public:
  explicit DecompressingReader(WindowReader& input) : input_(input) {}

  Result<size_t> read(std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      if (piece_.empty() && !ended_) {
        piece_ = PENSTOCK_TRY(input_.next());
        ended_ = piece_.empty();
      }
      const size_t made = PENSTOCK_TRY(step(piece_, into.subspan(done)));
      done += made;
      if (made > 0 || !piece_.empty()) continue;
      if (!ended_) continue;
      if (!is_between_parts()) return cut_off();
      break;
    }
    at_ += done;
    return done;
  }

  Result<uint64_t> skip(uint64_t bytes) override {
    if (scratch_.empty()) scratch_.resize(kSkipBytes);
    uint64_t skipped = 0;
    while (skipped < bytes) {
      const size_t wanted = std::min<uint64_t>(bytes - skipped, scratch_.size());
      const size_t got = PENSTOCK_TRY(read(std::span(scratch_).first(wanted)));
      skipped += got;
      if (got < wanted) break;
    }
    return skipped;
  }
  uint64_t offset() const override { return at_; }

 protected:
  // Takes from the front of `input`, which is empty only at the end, and writes to the front of
  // `into`: answers how much. Doing neither means that more input is wanted.
  virtual Result<size_t> step(std::span<const std::byte>& input, std::span<std::byte> into) = 0;
  // Whether the stream may end here.
  virtual bool is_between_parts() const = 0;

  Error corrupt(std::string_view what) const {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}, before offset {}: {}", input_.name(),
                                                       input_.offset(), what));
  }

 private:
  Error cut_off() const { return corrupt("the compressed data is cut off"); }

  Input input_;
  std::span<const std::byte> piece_;
  bool ended_ = false;
  uint64_t at_ = 0;
  std::vector<std::byte> scratch_;
};

class GzipReader final : public DecompressingReader {
 public:
  explicit GzipReader(WindowReader& input) : DecompressingReader(input) {}
  ~GzipReader() override { ::inflateEnd(&stream_); }

  Result<void> start() {
    if (::inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK) return {};
    return make_error(ErrorCode::kNoMemory, "no memory for decompressing");
  }

 private:
  Result<size_t> step(std::span<const std::byte>& input, std::span<std::byte> into) override {
    if (between_) {
      // Tapes and some writers pad with zeros.
      const auto begin = std::ranges::find_if(input, [](std::byte b) { return b != std::byte{0}; });
      if (begin != input.begin() && !first_) input = {begin, input.end()};
      if (input.empty()) return size_t{0};
      if (!first_) ::inflateReset(&stream_);
      between_ = false;
      first_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    const auto room = static_cast<uInt>(std::min<size_t>(into.size(), 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = room;
    const int answer = ::inflate(&stream_, Z_NO_FLUSH);
    input = input.last(stream_.avail_in);
    if (answer == Z_STREAM_END) between_ = true;
    if (answer == Z_MEM_ERROR) return make_error(ErrorCode::kNoMemory, "no memory to decompress");
    if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR) {
      return corrupt(fmt::format("not gzip: {}", stream_.msg != nullptr ? stream_.msg : "?"));
    }
    return size_t{room - stream_.avail_out};
  }
  bool is_between_parts() const override { return between_; }

  z_stream stream_{};
  bool between_ = true;
  bool first_ = true;
};

class ZstdReader final : public DecompressingReader {
 public:
  explicit ZstdReader(WindowReader& input) : DecompressingReader(input) {}
  ~ZstdReader() override { ::ZSTD_freeDCtx(context_); }

  Result<void> start() {
    context_ = ::ZSTD_createDCtx();
    if (context_ != nullptr) return {};
    return make_error(ErrorCode::kNoMemory, "no memory for decompressing");
  }

 private:
  Result<size_t> step(std::span<const std::byte>& input, std::span<std::byte> into) override {
    if (between_ && input.empty()) return size_t{0};
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const size_t answer = ::ZSTD_decompressStream(context_, &out, &in);
    if (::ZSTD_isError(answer) != 0) {
      return corrupt(fmt::format("zstd: {}", ::ZSTD_getErrorName(answer)));
    }
    between_ = answer == 0;
    input = input.subspan(in.pos);
    return out.pos;
  }
  bool is_between_parts() const override { return between_; }

  ZSTD_DCtx* context_ = nullptr;
  bool between_ = true;
};

template <typename Reader>
Result<std::unique_ptr<SequentialReader>> start(WindowReader& input) {
  auto reader = std::make_unique<Reader>(input);
  PENSTOCK_TRY(reader->start());
  return std::unique_ptr<SequentialReader>(std::move(reader));
}

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Result<Compression> detect_compression(std::span<const std::byte> first_bytes) {
  using namespace std::string_view_literals;
  if (begins_with(first_bytes, "\x1f\x8b\x08"sv)) return Compression::kGzip;
  if (begins_with(first_bytes, "\x28\xb5\x2f\xfd"sv)) return Compression::kZstd;
  // A frame to be skipped, as pzstd begins with.
  if (first_bytes.size() >= 4 && (first_bytes[0] & std::byte{0xf0}) == std::byte{0x50} &&
      begins_with(first_bytes.subspan(1), "\x2a\x4d\x18"sv)) {
    return Compression::kZstd;
  }
  for (const auto& [magic, name] : {std::pair("\xfd"
                                              "7zXZ\0"sv,
                                              "xz"),
                                    std::pair("\x04\x22\x4d\x18"sv, "lz4")}) {
    if (!begins_with(first_bytes, magic)) continue;
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("compressed by {}: only gzip and zstd are read", name));
  }
  return Compression::kNone;
}

Result<std::unique_ptr<SequentialReader>> make_sequential_reader(WindowReader& input,
                                                                 Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return start<GzipReader>(input);
    case Compression::kZstd:
      return start<ZstdReader>(input);
    case Compression::kNone:
      break;
  }
  return std::unique_ptr<SequentialReader>(std::make_unique<PlainReader>(input));
}

}  // namespace penstock::data
