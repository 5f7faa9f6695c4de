// Which tensor comes to which place of which file, and which memory each piece of a file comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "penstock/checkpoint.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Files are staged and written in pieces of this size; only the last of each is smaller.
inline constexpr uint64_t kPieceBytes = 4 * kMiB;

// What is written of `bytes`: whole blocks, so that direct writes need no copy.
constexpr uint64_t padded(uint64_t bytes) {
  return (bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

// Memory that goes to a place in a file.
struct Origin {
  const std::byte* data = nullptr;
  uint64_t begin = 0;  // In the file.
  uint64_t end = 0;
  int32_t device = -1;  // As in Tensor.
};

struct FilePlan {
  std::string header;
  ManifestFile entry;           // Without hashes of tensors.
  std::vector<Origin> origins;  // The header first; one after the other, none empty.
  uint64_t pieces() const { return (entry.bytes + kPieceBytes - 1) / kPieceBytes; }
};

struct Piece {
  size_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Move it, and `origins` stay right: headers must not be changed.
struct Plan {
  std::vector<FilePlan> files;
  std::vector<Piece> pieces;  // In the order in which they are written: all files side by side.
  uint64_t bytes = 0;         // Of all files.
  uint64_t tensors = 0;
  bool on_device = false;  // Some of it.
};

struct PlanOptions {
  uint32_t files_max = 0;    // As in CheckpointerOptions.
  bool incremental = false;  // Smaller files: more of them stay as they are.
};

// kInvalid for a state that cannot be saved: names that are none or come twice, unknown dtypes.
// Files are not named yet.
Result<Plan> make_plan(std::vector<Tensor> tensors, const PlanOptions& options);

}  // namespace penstock::checkpoint
