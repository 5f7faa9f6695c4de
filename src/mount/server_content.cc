// What files hold.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

// As much as a reply can count, in whole pages.
constexpr uint64_t kCopiedBytesMax = uint64_t{1} << 31;
// How much of a file is looked at in one step when data or a hole is sought: few rows where it is
// dense, few steps where it is empty.
constexpr uint64_t kSeekFirstBytes = 64 * kMiB;
constexpr uint64_t kSeekGrowth = 4;

// One for each thread that answers; the kernel copies it while we reply.
std::span<std::byte> reply_buffer(size_t size) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < size) buffer.resize(size);
  return std::span(buffer).first(size);
}

// From where they lie; the kernel takes no more than so many at once.
void reply_pieces(fuse_req_t request, const volume::Pieces& pieces) {
  constexpr size_t kPartsMax = 512;
  std::vector<iovec> parts;
  parts.reserve(pieces.spans.size());
  for (const std::span<const std::byte> piece : pieces.spans) {
    parts.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  if (parts.size() <= kPartsMax) {
    fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
    return;
  }
  std::vector<char> whole;
  whole.reserve(pieces.bytes);
  for (const iovec& part : parts) {
    const auto* const begin = static_cast<const char*>(part.iov_base);
    whole.insert(whole.end(), begin, begin + part.iov_len);
  }
  fuse_reply_buf(request, whole.data(), whole.size());
}

}  // namespace

void Server::open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  (void)ino;
  // An open file needs nothing of us: the kernel holds the inode, and will never ask again. One
  // request less for each open, and one for each close.
  if (no_open_) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  file->keep_cache = 1;
  fuse_reply_open(request, file);
}

void Server::flush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  (void)ino;
  (void)file;
  // The kernel has sent what was written before it asks, and each of those is in the journal. Where
  // nothing is gathered there is nothing left to do, now or ever. But pages that it could not send
  // because this process is gone it drops without a word: that nobody answers this request is how
  // close() fails then.
  fuse_reply_err(request, gathers() ? 0 : ENOSYS);
}

void Server::read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                  fuse_file_info* file) {
  (void)file;
  const auto at = static_cast<uint64_t>(offset);
  if (const std::optional<volume::ReadRange> next = read_ahead_.note(ino, at, size)) {
    view_.prefetch(ino, next->offset, next->length);
  }
  const Result<volume::Pieces> got = view_.read_pieces(ino, at, reply_buffer(size));
  if (!got.ok()) return reply_error(request, got.error(), "read", ino);
  access_.note(ino);
  reply_pieces(request, *got);
}

void Server::write(fuse_req_t request, fuse_ino_t ino, const char* bytes, size_t size, off_t offset,
                   fuse_file_info* file) {
  if (refuse_change(request)) return;
  std::optional<WriteTimes::Writing> gathered;
  if (write_times_ && file->writepage != 0) gathered.emplace(*write_times_, ino);
  const Result<void> dropped = drop_special_bits(request, ino, RequestWatch::request_kills());
  if (!dropped.ok()) return reply_error(request, dropped.error(), "write", ino);
  const Result<void> written =
      live_->write(ino, static_cast<uint64_t>(offset), std::as_bytes(std::span(bytes, size)));
  if (!written.ok()) return reply_error(request, written.error(), "write", ino);
  access_.forget(ino);
  fuse_reply_write(request, size);
}

void Server::fsync(fuse_req_t request, fuse_ino_t ino, int only_data, fuse_file_info* file) {
  (void)only_data;
  (void)file;
  reply_done(request, live_ != nullptr ? live_->sync() : Result<void>(), "fsync", ino);
}

void Server::fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                       fuse_file_info* file) {
  (void)file;
  if (refuse_change(request)) return;
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0) {
    fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  const auto at = static_cast<uint64_t>(offset);
  const auto bytes = static_cast<uint64_t>(length);
  Result<meta::Inode> done = errno_error(EOPNOTSUPP, "fallocate");
  if ((mode & FALLOC_FL_PUNCH_HOLE) != 0) {
    done = live_->punch(ino, at, bytes, /*zeros=*/false);
  } else {
    done = live_->allocate(ino, at, bytes, (mode & FALLOC_FL_KEEP_SIZE) == 0);
    if (done.ok() && (mode & FALLOC_FL_ZERO_RANGE) != 0) {
      done = live_->punch(ino, at, bytes, /*zeros=*/true);
    }
  }
  if (!done.ok()) return reply_error(request, done.error(), "fallocate", ino);
  (void)drop_for_caller(request, ino);
  fuse_reply_err(request, 0);
}

void Server::copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset,
                             fuse_file_info* from_file, fuse_ino_t to, off_t to_offset,
                             fuse_file_info* to_file, size_t length, int flags) {
  (void)from_file;
  (void)to_file;
  (void)flags;
  if (refuse_change(request)) return;
  const Result<meta::Inode> source = names().inode(from);
  if (!source.ok()) return reply_error(request, source.error(), "copy_file_range", from);
  const auto at = static_cast<uint64_t>(from_offset);
  const uint64_t there = source->size > at ? source->size - at : 0;
  const uint64_t bytes = std::min({uint64_t{length}, there, kCopiedBytesMax});
  if (bytes > 0) {
    const Result<meta::Inode> done =
        live_->copy_range(from, at, to, static_cast<uint64_t>(to_offset), bytes);
    if (!done.ok()) return reply_error(request, done.error(), "copy_file_range", to);
    access_.forget(to);
    (void)drop_for_caller(request, to);
  }
  fuse_reply_write(request, bytes);
}

Result<off_t> Server::find_data(const meta::Inode& inode, uint64_t offset) {
  uint64_t step = kSeekFirstBytes;
  for (uint64_t at = offset; at < inode.size; at += step, step *= kSeekGrowth) {
    step = std::min(step, inode.size - at);
    const auto extents = PENSTOCK_TRY(names().extents(inode.ino, at, step));
    for (const meta::Extent& extent : extents) {
      const uint64_t begin = std::max(extent.offset, offset);
      if (begin < inode.size) return static_cast<off_t>(begin);
    }
  }
  return errno_error(ENXIO, "no data");
}

Result<off_t> Server::find_hole(const meta::Inode& inode, uint64_t offset) {
  uint64_t end = offset;  // Of the data that begins there.
  while (end < inode.size) {
    const uint64_t step = std::min(kSeekFirstBytes, inode.size - end);
    const auto extents = PENSTOCK_TRY(names().extents(inode.ino, end, step));
    const uint64_t before = end;
    for (const meta::Extent& extent : extents) {
      if (extent.offset > end) return static_cast<off_t>(end);
      end = std::max(end, extent.offset + extent.length);
    }
    if (end == before) return static_cast<off_t>(end);
  }
  return static_cast<off_t>(std::min(end, inode.size));
}

void Server::lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence,
                   fuse_file_info* file) {
  (void)file;
  if (!gathers()) return seek(request, ino, offset, whence);
  // Not here: it waits for writes, and where all threads wait nobody answers those.
  ThreadPool::Task task = [this, request, ino, offset, whence, facts = watch_.hand_over()] {
    watch_.take_over(facts);
    if (page_flush_.flush(ino)) return seek(request, ino, offset, whence);
    // The kernel will take all for data, which is always right.
    fuse_reply_err(request, ENOSYS);
  };
  if (seekers_.try_submit(task)) return;
  fuse_reply_err(request, ENOMEM);
}

void Server::seek(fuse_req_t request, meta::Ino ino, off_t offset, int whence) {
  const Result<meta::Inode> inode = names().inode(ino);
  if (!inode.ok()) return reply_error(request, inode.error(), "lseek", ino);
  if (offset < 0 || static_cast<uint64_t>(offset) >= inode->size) {
    fuse_reply_err(request, ENXIO);
    return;
  }
  const Result<off_t> found = whence == SEEK_DATA
                                  ? find_data(*inode, static_cast<uint64_t>(offset))
                                  : find_hole(*inode, static_cast<uint64_t>(offset));
  if (!found.ok()) return reply_error(request, found.error(), "lseek", ino);
  fuse_reply_lseek(request, *found);
}

}  // namespace penstock::mount
