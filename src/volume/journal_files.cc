#include "volume/journal_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace penstock::volume {

namespace {

// What is in a journal is for nobody else's eyes.
constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;

// On return `path` is there and its name durable, and so is each that had to be made on the way.
// One that is found may have been made by somebody who died before the sync: its name is synced
// too.
Result<void> make_durably(io::FileSystem& fs, const std::string& path) {
  const std::string parent = io::parent_path(path);
  const Result<io::FileInfo> there = fs.stat(path);
  if (there.ok() && there->kind != io::FileKind::kDirectory) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is no directory", path));
  }
  if (!there.ok()) {
    if (there.error().code != ErrorCode::kNotFound || parent == path) return there.error();
    PENSTOCK_TRY(make_durably(fs, parent));
    const Result<void> made = fs.make_directory(path, kDirectoryMode);
    if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
  }
  return parent == path ? Result<void>() : fs.sync_directory(parent);
}

// Where the file system cannot reserve space, writing takes it.
Result<void> reserve(io::File& file, uint64_t bytes) {
  const Result<void> allocated = file.allocate(0, bytes);
  if (allocated.ok() || allocated.error().code != ErrorCode::kUnsupported) return allocated;
  const std::vector<std::byte> zeros(std::min<uint64_t>(bytes, kMiB));
  for (uint64_t at = 0; at < bytes; at += zeros.size()) {
    const uint64_t step = std::min<uint64_t>(zeros.size(), bytes - at);
    PENSTOCK_TRY(file.write(at, std::span(zeros).first(step)));
  }
  return {};
}

}  // namespace

Result<void> final_sync(const Result<void>& synced) {
  if (synced.ok()) return {};
  Error error = synced.error();
  error.code = ErrorCode::kIo;
  error.retryable = false;
  return error;
}

uint64_t JournalFiles::Found::highest() const {
  uint64_t highest = 0;
  for (const auto* numbers : {&segments, &spares, &unfinished}) {
    if (!numbers->empty()) highest = std::max(highest, numbers->back());
  }
  return highest;
}

std::string JournalFiles::path_of(std::string_view prefix, uint64_t number) const {
  return fmt::format("{}/{}", directory_, journal_file_name(prefix, number));
}

Result<void> JournalFiles::make_directory() {
  return make_durably(fs_, directory_);
}

Result<JournalFiles::Found> JournalFiles::list() {
  Found found;
  PENSTOCK_TRY(fs_.list(directory_, [&](const io::DirectoryEntry& entry) {
    const auto take = [&](std::string_view prefix, std::vector<uint64_t>& into) {
      if (const auto number = parse_journal_file_name(prefix, entry.name)) into.push_back(*number);
    };
    take(kSegmentPrefix, found.segments);
    take(kSparePrefix, found.spares);
    take(kUnfinishedPrefix, found.unfinished);
    return true;
  }));
  for (auto* numbers : {&found.segments, &found.spares, &found.unfinished}) {
    std::ranges::sort(*numbers);
  }
  if (found.highest() < UINT64_MAX) return found;
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("{} holds a file with the last number there is, which no journal gives",
                  directory_));
}

Result<std::shared_ptr<io::File>> JournalFiles::open_file(const std::string& path) {
  return std::shared_ptr<io::File>(
      PENSTOCK_TRY(fs_.open(path, {.access = io::Access::kReadWrite, .plain_only = true})));
}

Result<SegmentRef> JournalFiles::open_segment(uint64_t number) {
  const std::string path = path_of(kSegmentPrefix, number);
  auto segment = std::make_shared<Segment>();
  segment->file = PENSTOCK_TRY(open_file(path));
  const io::FileInfo info = PENSTOCK_TRY(segment->file->stat());
  std::array<std::byte, kSegmentFieldsBytes> fields;
  const size_t count = PENSTOCK_TRY(segment->file->read(0, fields));
  const Result<SegmentHeader> header = parse_segment_header(std::span(fields).first(count));
  if (!header.ok() && header.error().code != ErrorCode::kCorrupt) {
    return header.error().with_context(path);
  }
  if (header.ok() && header->volume != volume_) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} is of the journal of another volume, {}; this one is {}: give it "
                    "a directory of its own",
                    path, uuid_text(header->volume), uuid_text(volume_)));
  }
  if (header.ok() && header->number == number) {
    segment->header = *header;
    segment->bytes = std::min(header->bytes, info.size);
    segment->last = header->first - 1;
    return segment;
  }
  segment->header.number = number;
  segment->bytes = info.size;
  segment->damage =
      header.ok() ? make_error(ErrorCode::kCorrupt,
                               fmt::format("{} says that it is segment {:x}", path, header->number))
                  : header.error().with_context(path);
  return segment;
}

Result<std::shared_ptr<io::File>> JournalFiles::make_file(uint64_t number, uint64_t bytes) {
  std::shared_ptr<io::File> file = PENSTOCK_TRY(
      fs_.open(path_of(kUnfinishedPrefix, number), {.access = io::Access::kReadWrite,
                                                    .create = io::Create::kMustNotExist,
                                                    .permissions = kFileMode}));
  PENSTOCK_TRY(reserve(*file, bytes));
  return file;
}

Result<SegmentRef> JournalFiles::put_into_use(const SegmentHeader& header, Spare* spare) {
  const std::string from = spare != nullptr ? path_of(kSparePrefix, spare->number)
                                            : path_of(kUnfinishedPrefix, header.number);
  auto segment = std::make_shared<Segment>();
  const auto prepare = [&]() -> Result<void> {
    if (spare == nullptr) {
      segment->file = PENSTOCK_TRY(make_file(header.number, header.bytes));
    } else {
      if (spare->file == nullptr) spare->file = PENSTOCK_TRY(open_file(from));
      segment->file = spare->file;
    }
    alignas(kPageBytes) std::array<std::byte, kSegmentHeaderBytes> front;
    write_segment_header(front, header);
    PENSTOCK_TRY(segment->file->write(0, front));
    // Before it has the name: under that there is never a header that is not whole.
    PENSTOCK_TRY(final_sync(segment->file->data_sync()));
    return fs_.rename(from, path_of(kSegmentPrefix, header.number));
  };
  const Result<void> prepared = prepare();
  if (!prepared.ok()) {
    if (spare == nullptr) (void)fs_.remove(from);
    return prepared.error();
  }
  // Before there is a record in it that a sync could promise.
  PENSTOCK_TRY(sync_names());
  segment->header = header;
  segment->bytes = header.bytes;
  segment->last = header.first - 1;
  return segment;
}

Result<void> JournalFiles::set_aside(uint64_t number) {
  return fs_.rename(path_of(kSegmentPrefix, number), path_of(kSparePrefix, number));
}

Result<void> JournalFiles::remove(std::string_view prefix, uint64_t number) {
  const Result<void> removed = fs_.remove(path_of(prefix, number));
  if (!removed.ok() && removed.error().code == ErrorCode::kNotFound) return {};
  return removed;
}

Result<void> JournalFiles::sync_names() {
  return final_sync(fs_.sync_directory(directory_));
}

Result<uint64_t> JournalFiles::spare_bytes(uint64_t number) {
  const io::FileInfo info = PENSTOCK_TRY(fs_.stat_link(path_of(kSparePrefix, number)));
  if (info.kind == io::FileKind::kFile) return info.size;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{} is no plain file", path_of(kSparePrefix, number)));
}

}  // namespace penstock::volume
