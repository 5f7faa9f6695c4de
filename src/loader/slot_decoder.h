// Turns the raw bytes of one sample into its place in the batch.
// Threads: one per worker.
#pragma once

#include "loader/batch_work.h"
#include "penstock/decode.h"

namespace penstock::loader {

class SlotDecoder {
 public:
  // All fields of the slot. An error names what was wrong; the slot may then hold anything.
  Result<void> decode(BatchWork& batch, uint32_t slot);

 private:
  Result<void> decode_field(BatchWork& batch, uint32_t slot, size_t field,
                            std::span<const std::byte> bytes);
  // Those of one sample stay in the cache of this CPU between being read and widened.
  Result<void> read_tokens(BatchWork& batch, uint32_t slot, size_t field);
  Result<void> decode_records(BatchWork& batch, uint32_t slot);
  Result<void> decode_feature(BatchWork& batch, uint32_t slot, size_t field,
                              std::span<const std::byte> record);
  Result<void> decode_int(const Field& field, std::span<const std::byte> bytes,
                          std::span<std::byte> out);
  Result<void> decode_float(const Field& field, std::span<const std::byte> bytes,
                            std::span<std::byte> out);
  Result<void> decode_text(BatchWork& batch, uint32_t slot, size_t field,
                           std::span<const std::byte> bytes);

  std::vector<std::byte> tokens_;
  decode::ImageDecoder images_;
  decode::JsonReader json_;
};

}  // namespace penstock::loader
