// How the numbers of a batch lie in its memory: each dense column, the mask, the sample numbers, and
// where the values of ragged columns begin.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/loader.h"

namespace penstock::loader {

// Dense columns have a number of bytes per slot; 0 of ragged ones.
size_t slot_bytes(const Field& field);
bool is_ragged(const Field& field);
// kInvalid says which field is wrong.
Result<void> check_fields(const std::vector<Field>& fields);

struct Layout {
  Layout(const std::vector<Field>& fields, uint32_t batch_size);

  struct Place {
    uint64_t offset = 0;   // Dense: the data. Ragged: the starts,
    uint64_t lengths = 0;  // and the lengths.
    uint64_t slot_bytes = 0;
  };
  std::vector<Place> columns;
  uint64_t mask = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  bool has_ragged = false;
};

}  // namespace penstock::loader
