// Shards for tests, by writers that share nothing with the readers.
#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/result_matchers.h"
#include "codec/crc.h"
#include "io/memory_file_system.h"
#include "penstock/data.h"

namespace penstock::data {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string random_text(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() & 0xff);
  return text;
}

enum class TarStyle { kUstar, kGnu, kPax };

// Writes archives as ustar, GNU tar and pax do.
class TarWriter {
 public:
  explicit TarWriter(TarStyle style = TarStyle::kUstar) : style_(style) {}

  void add(const std::string& name, std::string_view data, char type = '0') {
    if (style_ == TarStyle::kPax) {
      std::string records = record("mtime", "1700000000.25");
      if (name.size() > 100) records += record("path", name);
      block("PaxHeaders/x", records.size(), 'x');
      body(records);
    } else if (name.size() > 100 && style_ == TarStyle::kGnu) {
      block("././@LongLink", name.size() + 1, 'L');
      body(name + '\0');
    }
    block(name, data.size(), type);
    body(data);
  }
  void add_global(const std::string& key, const std::string& value) {
    const std::string records = record(key, value);
    block("pax_global_header", records.size(), 'g');
    body(records);
  }
  void add_extended(const std::string& key, const std::string& value) {
    const std::string records = record(key, value);
    block("x", records.size(), 'x');
    body(records);
  }
  // A header alone.
  void block(const std::string& name, uint64_t size, char type, bool base_256 = false) {
    std::string header(512, '\0');
    std::string last = name;
    if (name.size() > 100 && style_ == TarStyle::kUstar) {
      const size_t slash = name.rfind('/', 155);
      put(header, 345, name.substr(0, slash));
      last = name.substr(slash + 1);
    }
    put(header, 0, last.substr(0, 100));
    put(header, 100, "0000644");
    put(header, 108, "0000000");
    put(header, 116, "0000000");
    if (base_256) {
      header[124] = '\x80';
      for (int i = 0; i < 8; ++i)
        header[135 - static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i));
    } else {
      put(header, 124,
          style_ == TarStyle::kGnu ? fmt::format("{:011o} ", size) : fmt::format("{:011o}", size));
    }
    put(header, 136, "14524600000");
    header[156] = type;
    put(header, 257,
        style_ == TarStyle::kGnu ? std::string("ustar  ")
                                 : std::string("ustar\0"
                                               "00",
                                               8));
    std::memset(header.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    put(header, 148, fmt::format("{:06o}", sum) + '\0' + ' ');
    out_ += header;
  }
  void body(std::string_view data) {
    out_ += data;
    out_.resize((out_.size() + 511) / 512 * 512);
  }
  size_t size() const { return out_.size(); }
  std::string bare() const { return out_; }
  std::string finish() const { return out_ + std::string(10240, '\0'); }

 private:
  static void put(std::string& header, size_t at, const std::string& value) {
    header.replace(at, value.size(), value);
  }
  static std::string record(const std::string& key, const std::string& value) {
    for (size_t length = key.size() + value.size() + 3;; ++length) {
      std::string text = fmt::format("{} {}={}\n", length, key, value);
      if (text.size() == length) return text;
    }
  }

  const TarStyle style_;
  std::string out_;
};

inline std::string tf_record(std::string_view data) {
  const auto masked = [](std::string_view bytes) {
    const uint32_t crc = codec::crc32c(bytes_of(bytes));
    const uint32_t value = ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
    return std::string(reinterpret_cast<const char*>(&value), 4);
  };
  const uint64_t length = data.size();
  const std::string front(reinterpret_cast<const char*>(&length), 8);
  return front + masked(front) + std::string(data) + masked(data);
}

inline std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

inline void write_file(io::FileSystem& fs, const std::string& path, std::string_view contents) {
  ASSERT_THAT(io::make_directories(fs, io::parent_path(path)), IsOk());
  auto file = fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->write(0, bytes_of(contents)), IsOk());
  ASSERT_THAT(fs.sync_file_system(path), IsOk());
}

inline bool is_there(io::FileSystem& fs, const std::string& path) {
  return fs.stat(path).ok();
}

// What a sample should be: its key, and its fields with their bytes.
using Fields = std::map<std::string, std::string>;
using Samples = std::vector<std::pair<std::string, Fields>>;

// `count` samples of two fields each, which differ by `seed`.
inline Samples make_samples(size_t count, uint64_t seed, size_t bytes_max = 2000) {
  std::mt19937_64 random(seed);
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    samples.push_back({fmt::format("s{}/{:06}", seed, i),
                       {{"jpg", random_text(random() % bytes_max, random())},
                        {"cls", std::to_string(random() % 1000)}}});
  }
  return samples;
}

inline std::string tar_of(const Samples& samples, TarStyle style = TarStyle::kUstar) {
  TarWriter writer(style);
  for (const auto& [key, fields] : samples) {
    for (const auto& [field, data] : fields) writer.add(key + "." + field, data);
  }
  return writer.finish();
}

// All samples as the dataset gives them; an empty list, and a failed test, when it does not.
inline Samples read_all(Dataset& dataset) {
  Samples samples;
  for (uint64_t i = 0; i < dataset.samples(); ++i) {
    const Result<SamplePlace> place = dataset.place(i);
    EXPECT_THAT(place, IsOk());
    if (!place.ok()) return {};
    Fields fields;
    for (size_t m = 0; m < place->members.size(); ++m) {
      const Member& member = place->members[m];
      std::string data(member.size, '\0');
      const std::span<std::byte> into = std::as_writable_bytes(std::span(data));
      if (dataset.shards()[place->shard].loose) {
        EXPECT_THAT(dataset.read_loose(*place, m, into), IsOk());
      } else {
        EXPECT_THAT(dataset.read_now(place->shard, member.offset, into), IsOk());
      }
      fields[place->index->fields()[member.field]] = data;
    }
    samples.emplace_back(std::string(place->index->key(place->sample)), std::move(fields));
  }
  return samples;
}

}  // namespace penstock::data
