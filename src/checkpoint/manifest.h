// What a checkpoint consists of: a JSON file whose first line holds the checksum of the rest, so that
// people and programs can read it and no flipped bit passes. docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/checkpoint.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kSumsName = "SHA256SUMS";
inline constexpr uint64_t kManifestBytesMax = uint64_t{1} << 30;

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t data_start = 0;   // All before it is the header,
  uint64_t header_hash = 0;  // of this hash.
  uint32_t rank = 0;         // Who wrote it.
  std::string sha256 = {};   // Of the whole file, in hexadecimal digits; empty where nobody asked.
  std::vector<TensorInfo> tensors;  // One after the other; `file` is not set.
};

struct Manifest {
  uint64_t step = 0;
  int64_t saved_ns = 0;
  std::string nonce;   // Of the attempt that wrote it.
  std::string writer;  // "penstock 0.1.0"
  std::map<std::string, std::string> metadata;
  std::vector<std::string> trees;  // Of each rank.
  std::vector<ManifestFile> files;
};

std::string manifest_text(const Manifest& manifest);
// Whether both hold the same bytes, as their checksums tell.
bool same_content(const ManifestFile& one, const ManifestFile& other);
// What `sha256sum -c` checks a checkpoint by: its files, and the manifest with this text. Empty where
// some file has no such sum.
std::string sha256_sums(const Manifest& manifest, std::string_view text);
// kCorrupt for what is no manifest or is damaged, kUnsupported for one of a newer version.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace penstock::checkpoint
