// How much of the speed of lz4 and zstd, called by hand together with xxh3, is left after framing
// and verification. Prints JSON. Usage: codec_bench [ROUNDS]
//
// In every round each contender runs once, in an order that rotates, and is compared with ours of
// the same round, so that whatever else the machine does hits all alike. Time is CPU time of this
// thread, which does not count the time in which somebody else had the core.
#include <fmt/format.h>
#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "penstock/frame.h"

namespace {

using namespace penstock;
using namespace penstock::codec;
using Bytes = std::vector<std::byte>;

constexpr size_t kBlockBytes = 4 * kMiB;
constexpr double kSampleSeconds = 0.02;
constexpr uint64_t kSeed = 20240501;

struct Contender {
  std::string name;
  std::function<void()> run;    // Handles kBlockBytes of raw data once.
  std::vector<double> seconds;  // Per run, one for each round.
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

[[noreturn]] void fail(std::string_view what) {
  fmt::print(stderr, "codec_bench: {}\n", what);
  std::exit(1);
}

// Ranks that follow Zipf's law, as words and tokens do.
class Zipf {
 public:
  explicit Zipf(size_t count) : below_(count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) below_[i] = sum += 1.0 / static_cast<double>(i + 1);
  }
  size_t operator()(std::mt19937_64& random) const {
    std::uniform_real_distribution<double> uniform(0, below_.back());
    return static_cast<size_t>(std::ranges::upper_bound(below_, uniform(random)) - below_.begin());
  }

 private:
  std::vector<double> below_;
};

// Token ids of four bytes each from a vocabulary of 50,000.
Bytes make_tokens() {
  std::mt19937_64 random(kSeed);
  const Zipf zipf(50000);
  std::vector<uint32_t> ids(50000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(i);
  std::ranges::shuffle(ids, random);
  Bytes data(kBlockBytes);
  for (size_t at = 0; at < kBlockBytes; at += sizeof(uint32_t)) {
    std::memcpy(&data[at], &ids[zipf(random)], sizeof(uint32_t));
  }
  return data;
}

// Words of two to nine letters from a vocabulary of 20,000.
Bytes make_text() {
  std::mt19937_64 random(kSeed);
  const Zipf zipf(20000);
  std::vector<std::string> words(20000);
  for (std::string& word : words) {
    for (size_t letters = 2 + random() % 8; letters > 0; --letters) {
      word += "eeetttaaooiinnsshhrrdlucmwfgypbvk"[random() % 33];
    }
    word += random() % 12 == 0 ? ", " : " ";
  }
  std::string text;
  while (text.size() < kBlockBytes) text += words[zipf(random)];
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + kBlockBytes};
}

// Runs all contenders in turn, `rounds` times.
void measure(std::vector<Contender>& contenders, size_t rounds) {
  size_t repeats = 1;
  for (Contender& contender : contenders) {  // Touches all memory, too.
    contender.run();
    const double begin = cpu_seconds();
    contender.run();
    const double one = cpu_seconds() - begin;
    repeats = std::max(repeats, static_cast<size_t>(std::min(1000.0, kSampleSeconds / one)));
  }
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& contender = contenders[(round + turn) % contenders.size()];
      const double begin = cpu_seconds();
      for (size_t i = 0; i < repeats; ++i) contender.run();
      contender.seconds.push_back((cpu_seconds() - begin) / static_cast<double>(repeats));
    }
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string rate_json(const Contender& contender) {
  return fmt::format(R"("name": "{}", "gb_s": {:.3f})", contender.name,
                     static_cast<double>(kBlockBytes) / median(contender.seconds) / 1e9);
}

// Our rate over theirs, with the 95 % interval of the median by order statistics.
std::string ratio_json(const Contender& ours, const Contender& theirs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.seconds.size(); ++i) {
    ratios.push_back(theirs.seconds[i] / ours.seconds[i]);
  }
  std::ranges::sort(ratios);
  const auto n = static_cast<double>(ratios.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
  const size_t high = ratios.size() - 1 - std::min(low, ratios.size() - 1);
  return fmt::format(R"("ratio": {{"median": {:.3f}, "low": {:.3f}, "high": {:.3f}}})",
                     median(ratios), ratios[low], ratios[high]);
}

// The first is ours; the others are what it is compared with.
std::string comparison_json(const std::vector<Contender>& contenders) {
  std::string json = fmt::format(R"({{"ours": {{{}}}, "against": [)", rate_json(contenders[0]));
  for (size_t i = 1; i < contenders.size(); ++i) {
    json += fmt::format("{}\n      {{{}, {}}}", i > 1 ? "," : "", rate_json(contenders[i]),
                        ratio_json(contenders[0], contenders[i]));
  }
  return json + "]}";
}

// Compressed pieces as somebody without frames would keep them.
struct Piece {
  Bytes stored;
  size_t raw_bytes = 0;
};

std::vector<Piece> compress_pieces(std::span<const std::byte> raw, size_t piece_bytes,
                                   Codec codec) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < raw.size(); at += piece_bytes) {
    const auto part = raw.subspan(at, std::min(piece_bytes, raw.size() - at));
    Bytes out(ZSTD_compressBound(part.size()) + 64);
    if (codec == Codec::kLz4) {
      out.resize(static_cast<size_t>(LZ4_compress_default(
          reinterpret_cast<const char*>(part.data()), reinterpret_cast<char*>(out.data()),
          static_cast<int>(part.size()), static_cast<int>(out.size()))));
    } else {
      out.resize(ZSTD_compress(out.data(), out.size(), part.data(), part.size(), 3));
    }
    pieces.push_back({std::move(out), part.size()});
  }
  return pieces;
}

using Hash = uint64_t (*)(std::span<const std::byte>);

uint64_t hash_library(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t hash_fastest(std::span<const std::byte> bytes) {
  return hash_bytes(bytes);
}

// Verify, then decompress, with the same libraries and no frames around.
Contender by_hand(std::string name, Codec codec, std::vector<Piece> pieces, Hash hash, Bytes& out) {
  std::vector<uint64_t> sums;
  for (const Piece& piece : pieces) sums.push_back(hash(piece.stored));
  std::shared_ptr<ZSTD_DCtx> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  auto run = [=, pieces = std::move(pieces), sums = std::move(sums), &out] {
    size_t at = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      if (hash(piece.stored) != sums[i]) fail("checksum differs");
      const size_t length =
          codec == Codec::kLz4
              ? static_cast<size_t>(LZ4_decompress_safe(
                    reinterpret_cast<const char*>(piece.stored.data()),
                    reinterpret_cast<char*>(&out[at]), static_cast<int>(piece.stored.size()),
                    static_cast<int>(piece.raw_bytes)))
              : ZSTD_decompressDCtx(context.get(), &out[at], piece.raw_bytes, piece.stored.data(),
                                    piece.stored.size());
      if (length != piece.raw_bytes) fail("decompression failed");
      at += length;
    }
  };
  return {std::move(name), std::move(run), {}};
}

std::string decode_json(const Bytes& raw, Codec codec, size_t frame_bytes, size_t rounds) {
  Bytes stored(frames_bound(raw.size(), frame_bytes));
  stored.resize(encode_frames(raw, stored, {}, {codec, 0}, frame_bytes).value());
  Bytes out(raw.size());  // One for all, so that none has the better memory.
  const auto ours = [&] {
    if (!decode_frames(stored, out, {})) fail("decode_frames failed");
  };
  const std::vector<Piece> frames = compress_pieces(raw, frame_bytes, codec);
  const std::vector<Piece> block = compress_pieces(raw, raw.size(), codec);
  std::vector<Contender> contenders;
  contenders.push_back({"decode_frames", ours, {}});
  contenders.push_back(by_hand("same pieces, libxxhash", codec, frames, hash_library, out));
  contenders.push_back(by_hand("same pieces, our hash", codec, frames, hash_fastest, out));
  contenders.push_back(by_hand("one block, libxxhash", codec, block, hash_library, out));
  contenders.push_back(by_hand("one block, our hash", codec, block, hash_fastest, out));
  measure(contenders, rounds);
  if (out != raw) fail("decoded data differs");
  return fmt::format(R"({{"frame_bytes": {}, "stored_share": {:.3f}, "decode": {}}})", frame_bytes,
                     static_cast<double>(stored.size()) / static_cast<double>(raw.size()),
                     comparison_json(contenders));
}

std::string encode_json(const Bytes& raw, std::string_view spec_text) {
  const CodecSpec spec = parse_codec(spec_text).value();
  Bytes stored(frames_bound(raw.size(), kFrameBytesDefault));
  size_t length = 0;
  std::vector<Contender> contenders;
  contenders.push_back(
      {std::string(spec_text), [&] { length = encode_frames(raw, stored, {}, spec).value(); }, {}});
  measure(contenders, 5);
  return fmt::format(R"({{{}, "stored_share": {:.3f}}})", rate_json(contenders[0]),
                     static_cast<double>(length) / static_cast<double>(raw.size()));
}

std::string data_json(std::string_view name, const Bytes& raw, size_t rounds) {
  std::string json = fmt::format("  {{\"data\": \"{}\",\n   \"encode\": [", name);
  const char* separator = "";
  for (const char* spec : {"none", "lz4", "lz4:9", "zstd:1", "zstd:3", "zstd:9"}) {
    json += fmt::format("{}\n    {}", std::exchange(separator, ","), encode_json(raw, spec));
  }
  json += "],\n   \"lz4\": [";
  separator = "";
  for (size_t frame_bytes : {kFrameBytesMin, kFrameBytesDefault, kFrameBytesMax}) {
    json += fmt::format("{}\n    {}", std::exchange(separator, ","),
                        decode_json(raw, Codec::kLz4, frame_bytes, rounds));
  }
  json += fmt::format("],\n   \"zstd\": [\n    {}",
                      decode_json(raw, Codec::kZstd, kFrameBytesDefault, rounds));
  return json + "]}";
}

}  // namespace

int main(int argc, char** argv) {
  size_t rounds = 31;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rounds);
    if (error != std::errc{} || end != text.data() + text.size() || rounds < 15) {
      fail("expected a number of rounds, at least 15");
    }
  }
  fmt::print(
      "{{\"block_bytes\": {}, \"rounds\": {}, \"clock\": \"thread CPU time\", \"cases\": [\n",
      kBlockBytes, rounds);
  fmt::print("{},\n", data_json("tokens", make_tokens(), rounds));
  fmt::print("{}\n]}}\n", data_json("text", make_text(), rounds));
  return 0;
}
