// One read or write of any offset, size and address, as the system calls that carry it out.
//
// Direct files accept only aligned calls. A TransferPlan cuts a request into pieces that are:
//   - the aligned middle, straight between device and memory;
//   - for reads, what is not aligned: widened to whole blocks, read into a bounce buffer, and
//   copied out;
//   - for writes, the first and last partial block: written through the page cache on a second,
//   buffered descriptor. The
//     kernel keeps both views coherent, because a partial block is never part of a direct piece
//     (blocks are at least a page here): so neighbours that share a block can be written at the
//     same time without losing each other's bytes, which read-modify-write would do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/engine.h"
#include "penstock/io.h"

namespace penstock::io {

// The descriptors and rules of an open file.
struct TransferTarget {
  int fd = -1;
  int buffered_fd = -1;  // For partial blocks of direct writes; -1 when not open (yet).
  Alignment alignment;
  bool direct = false;
  int rw_flags = 0;
};

// The largest piece that goes through a bounce buffer, and the size of these buffers.
inline constexpr size_t kBounceBytes = kMiB;

class TransferPlan {
 public:
  TransferPlan() = default;
  TransferPlan(const TransferTarget& target, RawOp::Kind kind, uint64_t offset, MemorySlice memory);

  // Whether pieces of this transfer go through a bounce buffer, or through the buffered descriptor.
  bool needs_bounce() const { return needs_bounce_; }
  static bool needs_buffered_fd(const TransferTarget& target, RawOp::Kind kind, uint64_t offset,
                                size_t size);
  void set_bounce(std::byte* bounce) { bounce_ = bounce; }  // kBounceBytes, aligned to a page.

  bool finished() const { return finished_; }
  // Fills `op` with the next piece. Requires !finished().
  void next(RawOp& op);
  // Takes the kernel's answer to that piece: bytes, or -errno.
  void absorb(int result);

  // After finished(): the bytes transferred, or -errno.
  int64_t outcome() const { return os_errno_ != 0 ? -os_errno_ : static_cast<int64_t>(done_); }

 private:
  bool is_read() const { return kind_ == RawOp::Kind::kRead; }
  bool straight(uint64_t position, const std::byte* data, size_t left) const;
  void next_straight(RawOp& op, size_t length);
  void next_bounced_read(RawOp& op, size_t left);
  void next_odd_write(RawOp& op, size_t left);
  void absorb_bytes(size_t bytes);
  void fail(int os_errno);

  TransferTarget target_;
  RawOp::Kind kind_ = RawOp::Kind::kRead;
  uint64_t offset_ = 0;
  MemorySlice memory_;
  size_t done_ = 0;
  bool needs_bounce_ = false;
  bool finished_ = false;
  int os_errno_ = 0;
  uint32_t retries_ = 0;
  std::byte* bounce_ = nullptr;
  // The piece under way.
  uint32_t piece_bytes_ = 0;
  uint32_t piece_lead_ = 0;  // Bytes at its front that were read only for alignment.
  bool piece_bounced_ = false;
};

}  // namespace penstock::io
