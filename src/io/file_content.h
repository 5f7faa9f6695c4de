// The bytes of one file in memory, and what of them would survive a power cut.
//
// Blocks are immutable and shared: a write replaces them. So copying a file, and keeping the state
// of a sector as it was after some earlier write, costs a pointer per block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace penstock::io {

class PowerCutDice;

inline constexpr size_t kMemoryBlockBytes = 4096;  // What space is given out in.
inline constexpr size_t kMemorySectorBytes = 512;  // What a device writes whole or not at all.
using SectorMask = uint8_t;                        // One bit for each sector of a block.
using MemoryBlock = std::array<std::byte, kMemoryBlockBytes>;
using MemoryBlockRef = std::shared_ptr<const MemoryBlock>;

// A sparse file: what has no block reads as zeros. Bytes behind size() are always zero.
class FileContent {
 public:
  uint64_t size() const { return size_; }
  uint64_t block_count() const { return blocks_.size(); }

  // As pread: the count is less than into.size() only at the end of the file.
  size_t read(uint64_t offset, std::span<std::byte> into) const;
  void write(uint64_t offset, std::span<const std::byte> from);
  void resize(uint64_t size);
  void allocate(uint64_t offset, uint64_t length);

  // How much of the range, from its start, can be written when at most `new_blocks` may be added.
  uint64_t writable_bytes(uint64_t offset, uint64_t length, uint64_t new_blocks) const;
  uint64_t missing_blocks(uint64_t offset, uint64_t length) const;

  // Null where there is a hole.
  MemoryBlockRef block(uint64_t index) const;
  // Takes the masked sectors of block `index` from `image`. The size stays as it is: call resize()
  // when done.
  void put_sectors(uint64_t index, const MemoryBlockRef& image, SectorMask mask);

 private:
  uint64_t size_ = 0;
  std::map<uint64_t, MemoryBlockRef> blocks_;
};

// One change that no sync has made durable.
struct UnsyncedChange {
  enum class Kind : uint8_t { kWrite, kResize, kAllocate };
  // The block after the write, and which of its sectors the write touched. What reaches a device is
  // a sector's whole image, so a write that is kept keeps what earlier ones put into its sectors.
  struct Piece {
    MemoryBlockRef image;
    SectorMask mask = 0;
  };

  Kind kind = Kind::kWrite;
  uint64_t offset = 0;        // Where it starts; of a resize, the size before.
  uint64_t end = 0;           // Where it ends; of a resize, the size after.
  uint64_t ticket = 0;        // Of a write: not 0 while it is in flight.
  bool lost = false;          // Of a write: a sync failed to write it, and no later sync will.
  std::vector<Piece> pieces;  // Of a write: the blocks from offset / kMemoryBlockBytes on.
};

// A file as its users see it, as the device holds it, and the ordered changes in between.
class TrackedContent {
 public:
  TrackedContent() = default;
  explicit TrackedContent(FileContent durable) : current_(durable), synced_(std::move(durable)) {}

  const FileContent& current() const { return current_; }

  // A write with a ticket is in flight, and covered by no sync, until complete(ticket).
  void write(uint64_t offset, std::span<const std::byte> from, uint64_t ticket);
  void complete(uint64_t ticket);
  void complete_all();
  void resize(uint64_t size);
  void allocate(uint64_t offset, uint64_t length);

  void sync();
  // What Linux does when writing back fails: the pages become clean, so that no later sync writes
  // them.
  void fail_sync();

  // A state in which a device could come back.
  FileContent after_power_cut(PowerCutDice& dice) const;

 private:
  FileContent current_;
  FileContent synced_;
  std::vector<UnsyncedChange> unsynced_;
};

}  // namespace penstock::io
