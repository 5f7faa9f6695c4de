// What files hold.
#include <fmt/core.h>

#include <cerrno>

#include "meta/chunk_rows.h"
#include "meta/sqlite_namespace.h"

namespace penstock::meta {

namespace {

Result<void> check_range(uint64_t offset, uint64_t length) {
  if (offset > kFileBytesMax || length > kFileBytesMax - offset)
    return posix_error(EFBIG, fmt::format("{} bytes at {}", length, offset));
  return {};
}

bool same(const ExtentRow& row, const Extent& extent) {
  return row.offset == extent.offset && row.length == extent.length && row.chunk == extent.chunk &&
         row.chunk_offset == extent.chunk_offset;
}

}  // namespace

Result<void> SqliteNamespace::set_size(InodeRow& row, uint64_t size) {
  if (size > kFileBytesMax) return posix_error(EFBIG, fmt::format("a file of {} bytes", size));
  if (size > row.size) PENSTOCK_TRY(core_->check_quota(*volume_, size - row.size, 0));
  core_->note_totals(*volume_, static_cast<int64_t>(size - row.size), 0);
  row.size = size;
  return {};
}

Result<Inode> SqliteNamespace::save_content(InodeRow& row, Time now) {
  row.mtime = row.ctime = now;
  PENSTOCK_TRY(save_inode(*core_, id(), row));
  return Inode(row);
}

Result<Inode> SqliteNamespace::write(Ino ino, uint64_t offset, std::span<const Place> chunks,
                                     Time now) {
  return changing([&]() -> Result<Inode> {
    InodeRow row = PENSTOCK_TRY(load_file(*core_, id(), ino));
    if (chunks.empty()) return Inode(row);
    PENSTOCK_TRY(check_places(*core_, chunks));
    uint64_t length = 0;
    for (const Place& chunk : chunks) length += chunk.raw;
    PENSTOCK_TRY(check_range(offset, length));
    if (offset + length > row.size) PENSTOCK_TRY(set_size(row, offset + length));
    const Range range{offset, offset + length};
    row.allocated += length - PENSTOCK_TRY(cut_extents(*core_, id(), ino, range));
    ChunkId added = PENSTOCK_TRY(add_chunks(*core_, chunks));
    for (const Place& chunk : chunks) {
      PENSTOCK_TRY(
          add_extent(*core_, id(), ino, {.offset = offset, .length = chunk.raw, .chunk = added++}));
      offset += chunk.raw;
    }
    row.data_version = core_->next_data_version();
    return save_content(row, now);
  });
}

Result<Inode> SqliteNamespace::punch(Ino ino, uint64_t offset, uint64_t length, bool zeros,
                                     Time now) {
  return changing([&]() -> Result<Inode> {
    InodeRow row = PENSTOCK_TRY(load_file(*core_, id(), ino));
    if (length == 0) return posix_error(EINVAL, "an empty range");
    if (zeros) PENSTOCK_TRY(check_range(offset, length));
    const Range range = Range::of(offset, length);
    row.allocated -= PENSTOCK_TRY(cut_extents(*core_, id(), ino, range));
    if (zeros) row.allocated += PENSTOCK_TRY(fill_holes(*core_, id(), ino, range));
    row.data_version = core_->next_data_version();
    return save_content(row, now);
  });
}

Result<Inode> SqliteNamespace::allocate(Ino ino, uint64_t offset, uint64_t length, bool grow,
                                        Time now) {
  return changing([&]() -> Result<Inode> {
    InodeRow row = PENSTOCK_TRY(load_file(*core_, id(), ino));
    if (length == 0) return posix_error(EINVAL, "an empty range");
    PENSTOCK_TRY(check_range(offset, length));
    if (grow && offset + length > row.size) {
      PENSTOCK_TRY(set_size(row, offset + length));
      row.data_version = core_->next_data_version();
    }
    row.allocated += PENSTOCK_TRY(fill_holes(*core_, id(), ino, {offset, offset + length}));
    return save_content(row, now);
  });
}

Result<Inode> SqliteNamespace::copy_range(Ino from, uint64_t from_offset, Ino to,
                                          uint64_t to_offset, uint64_t length, Time now) {
  return changing([&]() -> Result<Inode> {
    const InodeRow source = PENSTOCK_TRY(load_file(*core_, id(), from));
    InodeRow row = PENSTOCK_TRY(load_file(*core_, id(), to));
    if (from_offset >= source.size) return Inode(row);
    length = std::min(length, source.size - from_offset);
    if (length == 0) return Inode(row);
    PENSTOCK_TRY(check_range(to_offset, length));
    const Range taken{from_offset, from_offset + length};
    const Range range{to_offset, to_offset + length};
    if (from == to && taken.begin < range.end && range.begin < taken.end)
      return posix_error(EINVAL, "ranges that overlap");
    if (range.end > row.size) PENSTOCK_TRY(set_size(row, range.end));
    const auto rows = PENSTOCK_TRY(find_extents(*core_, id(), from, kLive, taken));
    row.allocated -= PENSTOCK_TRY(cut_extents(*core_, id(), to, range));
    for (ExtentRow part : clip(rows, taken)) {
      part.offset = part.offset - taken.begin + range.begin;
      PENSTOCK_TRY(add_part(*core_, id(), to, part));
      row.allocated += part.length;
    }
    row.data_version = core_->next_data_version();
    return save_content(row, now);
  });
}

Result<void> SqliteNamespace::merge(Ino ino, std::span<const Extent> expected, const Place& chunk) {
  return changing([&]() -> Result<void> {
    if (expected.empty()) return posix_error(EINVAL, "nothing to merge");
    InodeRow row = PENSTOCK_TRY(load_file(*core_, id(), ino));
    const Range range{expected.front().offset, expected.back().offset + expected.back().length};
    const auto rows = PENSTOCK_TRY(find_extents(*core_, id(), ino, kLive, range));
    if (!std::ranges::equal(rows, expected, same))
      return make_error(ErrorCode::kChanged, fmt::format("inode {} has other content there", ino));
    if (chunk.raw != range.end - range.begin)
      return posix_error(EINVAL, "a chunk of another length than what it takes the place of");
    PENSTOCK_TRY(check_places(*core_, {&chunk, 1}));
    row.allocated -= PENSTOCK_TRY(cut_extents(*core_, id(), ino, range));
    const ChunkId added = PENSTOCK_TRY(add_chunks(*core_, {&chunk, 1}));
    PENSTOCK_TRY(add_extent(*core_, id(), ino,
                            {.offset = range.begin, .length = chunk.raw, .chunk = added}));
    row.allocated += chunk.raw;
    return save_inode(*core_, id(), row);
  });
}

}  // namespace penstock::meta
