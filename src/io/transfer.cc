#include "io/transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::io {

namespace {

// Below the kernel's own limit (2 GiB less a page) and that of registered buffers.
constexpr size_t kPieceBytesMax = kGiB;

// Calls that make no progress, before we believe that they never will.
constexpr uint32_t kRetriesMax = 1000;

bool aligned(uint64_t value, uint64_t alignment) {
  return value % alignment == 0;
}

uint64_t round_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

TransferPlan::TransferPlan(const TransferTarget& target, RawOp::Kind kind, uint64_t offset,
                           MemorySlice memory)
    : target_(target), kind_(kind), offset_(offset), memory_(memory), finished_(memory.size == 0) {
  if (!target.direct) return;
  const auto address = reinterpret_cast<uintptr_t>(memory.data);
  const uint32_t block = target.alignment.offset_bytes;
  const bool memory_fits = aligned(address, target.alignment.memory_bytes);
  const bool range_fits = aligned(offset, block) && aligned(memory.size, block);
  // A write's partial blocks take the buffered descriptor, which has no rules; its whole blocks
  // need the bounce when the memory beside them is not aligned.
  const uintptr_t first_whole = address + (round_up(offset, block) - offset);
  needs_bounce_ = kind == RawOp::Kind::kRead ? !(memory_fits && range_fits)
                                             : !aligned(first_whole, target.alignment.memory_bytes);
}

bool TransferPlan::needs_buffered_fd(const TransferTarget& target, RawOp::Kind kind,
                                     uint64_t offset, size_t size) {
  if (!target.direct || kind != RawOp::Kind::kWrite) return false;
  return !aligned(offset, target.alignment.offset_bytes) ||
         !aligned(size, target.alignment.offset_bytes);
}

// Whether the bytes here can go directly between the device and the caller's memory.
bool TransferPlan::straight(uint64_t position, const std::byte* data, size_t left) const {
  if (!target_.direct) return true;
  const uint32_t block = target_.alignment.offset_bytes;
  // One widened read beats three small ones.
  if (is_read() && needs_bounce_ && left <= kBounceBytes - 2 * size_t{block}) return false;
  return aligned(position, block) && left >= block &&
         aligned(reinterpret_cast<uintptr_t>(data), target_.alignment.memory_bytes);
}

void TransferPlan::next(RawOp& op) {
  const uint64_t position = offset_ + done_;
  const size_t left = memory_.size - done_;
  op.kind = kind_;
  op.fd = target_.fd;
  op.rw_flags = target_.rw_flags;
  op.region = 0;
  piece_lead_ = 0;
  piece_bounced_ = false;
  if (straight(position, memory_.data + done_, left)) {
    const size_t whole = target_.direct ? left - left % target_.alignment.offset_bytes : left;
    next_straight(op, std::min(whole, kPieceBytesMax));
  } else if (is_read()) {
    next_bounced_read(op, left);
  } else {
    next_odd_write(op, left);
  }
  piece_bytes_ = op.size;
}

void TransferPlan::next_straight(RawOp& op, size_t length) {
  op.data = memory_.data + done_;
  op.size = static_cast<uint32_t>(length);
  op.offset = offset_ + done_;
  op.region = memory_.region;
}

void TransferPlan::next_bounced_read(RawOp& op, size_t left) {
  const uint32_t block = target_.alignment.offset_bytes;
  const uint64_t position = offset_ + done_;
  const auto lead = static_cast<uint32_t>(position % block);
  size_t length = std::min<uint64_t>(round_up(lead + left, block), kBounceBytes);
  // A large read whose memory becomes aligned at the next block needs the bounce for its first
  // block only.
  const auto next_block = reinterpret_cast<uintptr_t>(memory_.data + done_) + block - lead;
  if (left > kBounceBytes && lead != 0 && aligned(next_block, target_.alignment.memory_bytes))
    length = block;
  op.data = bounce_;
  op.size = static_cast<uint32_t>(length);
  op.offset = position - lead;
  piece_lead_ = lead;
  piece_bounced_ = true;
}

void TransferPlan::next_odd_write(RawOp& op, size_t left) {
  const uint32_t block = target_.alignment.offset_bytes;
  const uint64_t position = offset_ + done_;
  const auto lead = static_cast<uint32_t>(position % block);
  if (lead != 0 || left < block) {
    next_straight(op, std::min<size_t>(left, block - lead));
    op.fd = target_.buffered_fd;
    op.fixed = nullptr;  // Registered slots belong to the direct descriptor.
    return;
  }
  const size_t length = std::min(left - left % block, kBounceBytes);
  std::memcpy(bounce_, memory_.data + done_, length);
  op.data = bounce_;
  op.size = static_cast<uint32_t>(length);
  op.offset = position;
  piece_bounced_ = true;
}

void TransferPlan::absorb(int result) {
  if (result == -EINTR || result == -EAGAIN) {
    if (++retries_ > kRetriesMax) fail(EAGAIN);
    return;
  }
  if (result < 0) return fail(-result);
  absorb_bytes(static_cast<size_t>(result));
}

void TransferPlan::absorb_bytes(size_t bytes) {
  size_t useful = bytes;
  if (piece_bounced_ && is_read()) {
    useful = bytes > piece_lead_ ? std::min(bytes - piece_lead_, memory_.size - done_) : 0;
    std::memcpy(memory_.data + done_, bounce_ + piece_lead_, useful);
  }
  done_ += useful;
  if (done_ == memory_.size) {
    finished_ = true;
    return;
  }
  if (bytes == piece_bytes_) return;
  // A short read ends the file when it brought nothing, or when a direct one stopped inside a
  // block.
  const bool inside_block = target_.direct && !aligned(bytes, target_.alignment.offset_bytes);
  if (is_read() && (bytes == 0 || inside_block)) {
    finished_ = true;
  } else if (bytes == 0) {
    fail(EIO);  // A write of something that writes nothing, and says no more.
  } else if (useful == 0 && ++retries_ > kRetriesMax) {
    fail(EIO);
  }
}

void TransferPlan::fail(int os_errno) {
  os_errno_ = os_errno;
  finished_ = true;
}

}  // namespace penstock::io
