// Checksums of a data file, computed as its bytes pass in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "penstock/frame.h"

namespace penstock::checkpoint {

// Fills in the hashes of a file's tensors.
class TensorHashes {
 public:
  explicit TensorHashes(ManifestFile& file) : file_(file) {}
  void add(uint64_t offset, std::span<const std::byte> bytes);

 private:
  ManifestFile& file_;
  size_t tensor_ = 0;
  codec::Hasher hasher_;
};

// Compares a file with what the manifest says of it: header and tensors.
class FileCheck {
 public:
  explicit FileCheck(const ManifestFile& expected);
  void add(uint64_t offset, std::span<const std::byte> bytes) { hashes_.add(offset, bytes); }

  // After the last byte.
  bool header_is_right() const { return seen_.tensors[0].hash == expected_.header_hash; }
  std::vector<size_t> wrong_tensors() const;  // By their place in the manifest's file.
  bool all_is_right() const { return header_is_right() && wrong_tensors().empty(); }

 private:
  const ManifestFile& expected_;
  ManifestFile seen_;  // The header counts as one more tensor, before the others.
  TensorHashes hashes_;
};

}  // namespace penstock::checkpoint
