#include "checkpoint/file_check.h"

#include <algorithm>

namespace penstock::checkpoint {

void TensorHashes::add(uint64_t offset, std::span<const std::byte> bytes) {
  const uint64_t end = offset + bytes.size();
  while (tensor_ < file_.tensors.size()) {
    TensorInfo& tensor = file_.tensors[tensor_];
    const uint64_t tensor_end = tensor.offset + tensor.bytes;
    const uint64_t from = std::max(offset, tensor.offset);
    const uint64_t to = std::min(end, tensor_end);
    if (from < to) hasher_.update(bytes.subspan(from - offset, to - from));
    if (tensor_end > end) return;
    tensor.hash = hasher_.digest();
    hasher_.reset();
    ++tensor_;
  }
}

FileCheck::FileCheck(const ManifestFile& expected) : expected_(expected), hashes_(seen_) {
  TensorInfo header;
  header.bytes = expected.data_start;
  seen_.tensors.push_back(std::move(header));
  seen_.tensors.insert(seen_.tensors.end(), expected.tensors.begin(), expected.tensors.end());
  for (TensorInfo& tensor : seen_.tensors) tensor.hash = 0;
}

std::vector<size_t> FileCheck::wrong_tensors() const {
  std::vector<size_t> wrong;
  for (size_t i = 0; i < expected_.tensors.size(); ++i) {
    if (seen_.tensors[i + 1].hash != expected_.tensors[i].hash) wrong.push_back(i);
  }
  return wrong;
}

}  // namespace penstock::checkpoint
