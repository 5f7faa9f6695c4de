// Entries for the tests of this layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/entry.h"

namespace penstock::cache {

using Bytes = std::vector<std::byte>;

inline EntryKey test_key(uint32_t length = 10'000, uint64_t offset = 8 * kBlockBytes) {
  return {{"s3://bucket/train/shard-0.tar", "\"5d41402abc4b2a76b9719d911017c592\"", 1ull << 30},
          offset,
          length};
}

inline Bytes random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> words(size / sizeof(uint64_t) + 1);
  std::ranges::generate(words, random);
  const auto bytes = std::as_bytes(std::span(words)).first(size);
  return {bytes.begin(), bytes.end()};
}

// A sealed entry with random data. What seal_entry must overwrite is not zero before.
inline Bytes make_entry(const EntryKey& key, uint64_t seed = 1) {
  Bytes file(file_bytes(key), std::byte{0xa5});
  std::ranges::copy(random_bytes(key.length, seed), file.begin() + header_bytes(key));
  seal_entry(file, key);
  return file;
}

inline std::span<const std::byte> header_of(const Bytes& file, const EntryKey& key) {
  return std::span(file).first(header_bytes(key));
}
inline std::span<const std::byte> data_of(const Bytes& file, const EntryKey& key) {
  return std::span(file).subspan(header_bytes(key));
}

}  // namespace penstock::cache
