#include "io/file_content.h"

#include <algorithm>
#include <cstring>

#include "io/power_cut.h"

namespace penstock::io {

namespace {

constexpr size_t kSectorsPerBlock = kMemoryBlockBytes / kMemorySectorBytes;
constexpr SectorMask kAllSectors = 0xff;
static_assert(kSectorsPerBlock == 8, "a SectorMask has one bit for each sector");

const MemoryBlockRef& zero_block() {
  static const MemoryBlockRef block = std::make_shared<const MemoryBlock>(MemoryBlock{});
  return block;
}

std::shared_ptr<MemoryBlock> copy_of(const MemoryBlockRef& block) {
  return std::make_shared<MemoryBlock>(block ? *block : MemoryBlock{});
}

uint64_t blocks_for(uint64_t bytes) {
  return bytes / kMemoryBlockBytes + (bytes % kMemoryBlockBytes != 0 ? 1 : 0);
}

// The sectors of block `index` that [offset, end) touches.
SectorMask sectors_touched(uint64_t index, uint64_t offset, uint64_t end) {
  SectorMask mask = 0;
  for (size_t sector = 0; sector < kSectorsPerBlock; ++sector) {
    const uint64_t start = index * kMemoryBlockBytes + sector * kMemorySectorBytes;
    if (start < end && start + kMemorySectorBytes > offset) {
      mask = static_cast<SectorMask>(mask | (1u << sector));
    }
  }
  return mask;
}

void remove_sectors(SectorMask& mask, SectorMask gone) {
  mask = static_cast<SectorMask>(mask & ~gone);
}

void put_pieces(FileContent& content, const UnsyncedChange& write) {
  uint64_t index = write.offset / kMemoryBlockBytes;
  for (const UnsyncedChange::Piece& piece : write.pieces) {
    content.put_sectors(index++, piece.image, piece.mask);
  }
}

void apply(FileContent& content, const UnsyncedChange& change) {
  if (change.kind == UnsyncedChange::Kind::kAllocate) {
    content.allocate(change.offset, change.end - change.offset);
    return;
  }
  if (change.kind == UnsyncedChange::Kind::kWrite) put_pieces(content, change);
  const bool exact = change.kind == UnsyncedChange::Kind::kResize;
  content.resize(exact ? change.end : std::max(content.size(), change.end));
}

// Takes from `older`, a write that stays unsynced, what the synced `newer` overwrote: whatever
// becomes of the older one, it must not undo the newer one.
void supersede(UnsyncedChange& older, const UnsyncedChange& newer) {
  const uint64_t first = older.offset / kMemoryBlockBytes;
  if (newer.kind == UnsyncedChange::Kind::kResize) {
    older.end = std::min(older.end, newer.end);
    for (size_t i = 0; i < older.pieces.size(); ++i) {
      remove_sectors(older.pieces[i].mask, sectors_touched(first + i, newer.end, UINT64_MAX));
    }
  } else if (newer.kind == UnsyncedChange::Kind::kWrite) {
    const uint64_t newer_first = newer.offset / kMemoryBlockBytes;
    for (size_t i = 0; i < newer.pieces.size(); ++i) {
      const uint64_t index = newer_first + i;
      if (index < first || index - first >= older.pieces.size()) continue;
      remove_sectors(older.pieces[index - first].mask, newer.pieces[i].mask);
    }
  }
}

}  // namespace

size_t FileContent::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset >= size_) return 0;
  const size_t count = std::min<uint64_t>(into.size(), size_ - offset);
  for (size_t done = 0; done < count;) {
    const size_t within = (offset + done) % kMemoryBlockBytes;
    const size_t step = std::min(kMemoryBlockBytes - within, count - done);
    const auto found = blocks_.find((offset + done) / kMemoryBlockBytes);
    if (found == blocks_.end()) {
      std::memset(into.data() + done, 0, step);
    } else {
      std::memcpy(into.data() + done, found->second->data() + within, step);
    }
    done += step;
  }
  return count;
}

void FileContent::write(uint64_t offset, std::span<const std::byte> from) {
  for (size_t done = 0; done < from.size();) {
    const size_t within = (offset + done) % kMemoryBlockBytes;
    const size_t step = std::min(kMemoryBlockBytes - within, from.size() - done);
    MemoryBlockRef& slot = blocks_[(offset + done) / kMemoryBlockBytes];
    auto changed = copy_of(slot);
    std::memcpy(changed->data() + within, from.data() + done, step);
    slot = std::move(changed);
    done += step;
  }
  if (!from.empty()) size_ = std::max(size_, offset + from.size());
}

void FileContent::resize(uint64_t size) {
  size_ = size;
  blocks_.erase(blocks_.lower_bound(blocks_for(size)), blocks_.end());
  const size_t within = size % kMemoryBlockBytes;
  const auto last = within == 0 ? blocks_.end() : blocks_.find(size / kMemoryBlockBytes);
  if (last == blocks_.end()) return;
  auto trimmed = copy_of(last->second);
  std::fill(trimmed->begin() + static_cast<ptrdiff_t>(within), trimmed->end(), std::byte{0});
  last->second = std::move(trimmed);
}

void FileContent::allocate(uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  for (uint64_t index = offset / kMemoryBlockBytes; index < blocks_for(end); ++index) {
    blocks_.try_emplace(index, zero_block());
  }
  size_ = std::max(size_, end);
}

uint64_t FileContent::missing_blocks(uint64_t offset, uint64_t length) const {
  if (length == 0) return 0;
  const uint64_t first = offset / kMemoryBlockBytes;
  const uint64_t end = blocks_for(offset + length);
  const auto present = std::distance(blocks_.lower_bound(first), blocks_.lower_bound(end));
  return end - first - static_cast<uint64_t>(present);
}

uint64_t FileContent::writable_bytes(uint64_t offset, uint64_t length, uint64_t new_blocks) const {
  if (missing_blocks(offset, length) <= new_blocks) return length;
  uint64_t at = offset;
  while (at < offset + length) {
    const uint64_t index = at / kMemoryBlockBytes;
    if (!blocks_.contains(index) && new_blocks-- == 0) break;
    at = (index + 1) * kMemoryBlockBytes;
  }
  return std::min(at - offset, length);
}

MemoryBlockRef FileContent::block(uint64_t index) const {
  const auto found = blocks_.find(index);
  return found == blocks_.end() ? nullptr : found->second;
}

void FileContent::put_sectors(uint64_t index, const MemoryBlockRef& image, SectorMask mask) {
  if (mask == 0) return;
  MemoryBlockRef& slot = blocks_[index];
  if (mask == kAllSectors) {
    slot = image;
    return;
  }
  auto changed = copy_of(slot);
  for (size_t sector = 0; sector < kSectorsPerBlock; ++sector) {
    if ((mask & (1u << sector)) == 0) continue;
    const size_t at = sector * kMemorySectorBytes;
    std::memcpy(changed->data() + at, image->data() + at, kMemorySectorBytes);
  }
  slot = std::move(changed);
}

void TrackedContent::write(uint64_t offset, std::span<const std::byte> from, uint64_t ticket) {
  if (from.empty()) return;
  current_.write(offset, from);
  UnsyncedChange change;
  change.offset = offset;
  change.end = offset + from.size();
  change.ticket = ticket;
  for (uint64_t index = offset / kMemoryBlockBytes; index < blocks_for(change.end); ++index) {
    change.pieces.push_back({current_.block(index), sectors_touched(index, offset, change.end)});
  }
  unsynced_.push_back(std::move(change));
}

void TrackedContent::complete(uint64_t ticket) {
  // Writes in flight are the youngest.
  const auto found =
      std::find_if(unsynced_.rbegin(), unsynced_.rend(),
                   [ticket](const UnsyncedChange& change) { return change.ticket == ticket; });
  if (found != unsynced_.rend()) found->ticket = 0;
}

void TrackedContent::complete_all() {
  for (UnsyncedChange& change : unsynced_) change.ticket = 0;
}

void TrackedContent::resize(uint64_t size) {
  unsynced_.push_back({.kind = UnsyncedChange::Kind::kResize,
                       .offset = current_.size(),
                       .end = size,
                       .pieces = {}});
  current_.resize(size);
}

void TrackedContent::allocate(uint64_t offset, uint64_t length) {
  unsynced_.push_back({.kind = UnsyncedChange::Kind::kAllocate,
                       .offset = offset,
                       .end = offset + length,
                       .pieces = {}});
  current_.allocate(offset, length);
}

void TrackedContent::sync() {
  std::vector<UnsyncedChange> left;
  for (UnsyncedChange& change : unsynced_) {
    if (change.ticket != 0 || change.lost) {
      left.push_back(std::move(change));
      continue;
    }
    for (UnsyncedChange& older : left) supersede(older, change);
    apply(synced_, change);
  }
  unsynced_ = std::move(left);
}

void TrackedContent::fail_sync() {
  for (UnsyncedChange& change : unsynced_) {
    change.lost =
        change.lost || (change.kind == UnsyncedChange::Kind::kWrite && change.ticket == 0);
  }
}

FileContent TrackedContent::after_power_cut(PowerCutDice& dice) const {
  if (dice.keeps_nothing()) return synced_;
  if (dice.keeps_everything()) return current_;
  FileContent disk = synced_;
  uint64_t size = synced_.size();
  // Size, truncation and allocation are the journal's, which keeps the order in which they
  // happened. The data of writes follows no order.
  const uint64_t journalled = dice.prefix_of(unsynced_.size());
  const PowerCutDice::Habit habit = dice.habit();
  uint64_t freed_from =
      UINT64_MAX;  // Writes behind a lost truncation went to blocks not yet named.
  uint64_t number = 0;
  for (const UnsyncedChange& change : unsynced_) {
    const bool kept = number++ < journalled;
    if (change.kind == UnsyncedChange::Kind::kWrite) {
      UnsyncedChange torn = change;
      dice.tear(habit, torn);
      if (freed_from != UINT64_MAX) {
        supersede(torn, {.kind = UnsyncedChange::Kind::kResize, .end = freed_from, .pieces = {}});
      }
      put_pieces(disk, torn);
    } else if (kept) {
      apply(disk, change);
    } else if (change.kind == UnsyncedChange::Kind::kResize && change.end < change.offset) {
      freed_from = std::min(freed_from, change.end);
    }
    if (!kept) continue;
    size = change.kind == UnsyncedChange::Kind::kResize ? change.end : std::max(size, change.end);
  }
  disk.resize(size);
  return disk;
}

}  // namespace penstock::io
