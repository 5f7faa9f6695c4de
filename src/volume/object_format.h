// Objects of a volume: chunks one after the other, each of them frames of 256 KiB.
// docs/formats/volume-objects.md gives the bytes.
// Threads: all functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/frame.h"
#include "penstock/meta.h"
#include "volume/operation.h"

namespace penstock::volume {

// Raw bytes of a frame; the last of a chunk may have fewer.
inline constexpr uint32_t kFrameBytes = codec::kFrameBytesMin;

// "UUID/SSSSSSSS-NNNNNNNN", of the database that refers to it.
std::string object_key(const VolumeUuid& space, meta::ObjectId id);
// Which object that is, of whichever database; nothing when it is no such key.
std::optional<meta::ObjectId> parse_object_key(std::string_view key);
std::string object_key_prefix(const VolumeUuid& space);  // Of all of them: "UUID/".
// Segments of the journal are objects of session 0, which no owner ever has.
meta::ObjectId journal_object(uint64_t segment);
inline bool is_journal(meta::ObjectId id) {
  return id.session == 0;
}

// Who a frame of a chunk is.
codec::FrameIdentity frame_identity(const VolumeUuid& space, meta::ObjectId object,
                                    uint64_t chunk_offset, uint32_t index);

// Adds a chunk to the end of `object`, which will have this id; its place.
Result<meta::Place> append_chunk(std::vector<std::byte>& object, const VolumeUuid& space,
                                 meta::ObjectId id, std::span<const std::byte> raw,
                                 const codec::CodecSpec& spec);

// Where the stored bytes of frame `index` lie in the chunk, if that can be told without looking:
// frames of chunks that were not to be compressed are all of one size.
struct FrameRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};
uint32_t frames_of(const meta::Place& place);
uint32_t frame_raw_bytes(const meta::Place& place, uint32_t index);
bool frames_are_even(const meta::Place& place);
FrameRange frame_range(const meta::Place& place, uint32_t index);

// What the row of a chunk says of its stored bytes.
Result<uint64_t> chunk_checksum(std::span<const std::byte> stored);

}  // namespace penstock::volume
