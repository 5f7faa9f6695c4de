// Class folders to tar shards: what people write a script for before they train.
//
// A sample is NUMBER.jpg (or .png), NUMBER.cls with the number of its class, and with `names`
// NUMBER.json with where it came from. classes.txt has the classes, one per line.
// Each shard appears whole, under its final name; what was begun when it stops is taken back.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::pack {

struct PackProgress {
  uint64_t samples = 0;
  uint64_t samples_done = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t shards = 0;
};

struct PackFailure {
  std::string file;
  std::string reason;
};

struct PackOptions {
  std::string from;  // Class folders, or files: whatever data::Dataset opens.
  std::string to;    // A directory, which is made, s3:// or pen://.
  std::string prefix = "shard";
  uint64_t shard_bytes = 256 * kMiB;
  uint32_t max_side = 0;  // Larger images are made smaller, and JPEG. 0: as they are.
  int quality = 90;       // Of those.
  bool shuffle = false;
  uint64_t seed = 0;
  bool check = true;  // Decode each, and leave out what cannot be.
  bool names = false;
  uint32_t threads = 0;  // 0: the cores available.
  std::function<void(const PackProgress&)> on_progress = {};
  std::stop_token cancel = {};
};

struct PackReport {
  PackProgress totals;
  uint64_t resized = 0;
  uint64_t failed = 0;
  std::vector<PackFailure> failures;  // The first hundred.
  std::vector<std::string> classes;
};

// kExists when `to` has shards of that prefix already.
Result<PackReport> pack_images(const PackOptions& options);

}  // namespace penstock::pack
