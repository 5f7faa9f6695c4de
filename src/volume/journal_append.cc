// Appending to a journal, and making it durable.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <random>

#include "base/waiting.h"
#include "volume/journal_impl.h"

namespace penstock::volume {

namespace {

constexpr size_t kBuffersKept = 4;
constexpr uint64_t kBegunBytes = 8 * kMiB;

uint64_t random_salt() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

uint64_t page_end(uint64_t offset) {
  return (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

Journal::Impl::Bytes Journal::Impl::take_buffer(size_t bytes) {
  Bytes buffer;
  {
    const Lock state(state_);
    if (!buffers_.empty()) {
      buffer = std::move(buffers_.back());
      buffers_.pop_back();
    }
  }
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer;
}

void Journal::Impl::give_buffer(Bytes buffer) {
  const Lock state(state_);
  if (buffers_.size() < kBuffersKept) buffers_.push_back(std::move(buffer));
}

Result<JournalPlace> Journal::Impl::append(std::span<const std::byte> record,
                                           std::span<const std::byte> content) {
  if (record.size() > kRecordBytesMax || content.size() > kRecordBytesMax - record.size()) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("a journal record of {} + {} bytes; at most {} are allowed",
                                  record.size(), content.size(), kRecordBytesMax));
  }
  const uint64_t total = total_bytes(record.size(), content.size());
  if (total > options_.segment_bytes - kSegmentHeaderBytes) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("a journal record of {} bytes does not fit in a segment of {}",
                                  total, format_size(options_.segment_bytes)));
  }
  // Copied and hashed before the turn comes, by as many threads as append; and with room for zeros
  // up to the end of a page.
  Bytes buffer = take_buffer(total + kPageBytes);
  const RecordHeader header = write_body(std::span(buffer).first(total), record, content);
  Result<JournalPlace> place = write_record(buffer, header);
  give_buffer(std::move(buffer));
  if (place.ok()) metrics_.journal_bytes.add(total);
  return place;
}

Result<JournalPlace> Journal::Impl::write_record(Bytes& buffer, RecordHeader header) {
  const uint64_t total = header.total_bytes();
  const Lock turn(turn_);
  PENSTOCK_TRY(make_room(total));
  Segment& segment = *current_;
  {
    const Lock state(state_);
    header.sequence = last_ + 1;
    header.synced = synced_;
  }
  header.time_ns = now_ns();
  write_record_header(buffer, header, segment.identity().seed(segment.end));
  // A page is written in full the first time: for less, the kernel would have to read what is left
  // in it of the segment that the file was before.
  const uint64_t end = segment.end + total;
  const uint64_t write_end = end > segment.touched ? page_end(end) : end;
  const uint64_t padding = write_end - end;
  std::ranges::fill(std::span(buffer).subspan(total, padding), std::byte{0});
  const Result<void> written =
      segment.file->write(segment.end, std::span(buffer).first(total + padding));
  if (!written.ok()) return undo_write(segment, written.error());

  const JournalPlace place{header.sequence, segment.header.number, segment.end,
                           static_cast<uint32_t>(total)};
  segment.end = end;
  segment.touched = std::max(segment.touched, write_end);
  begin_to_store(segment);
  const Lock state(state_);
  last_ = segment.last = header.sequence;
  ages_.note(header.sequence, header.time_ns);
  return place;
}

// So that a sync later on has less to wait for. What is dirty stays in the page cache, whatever is
// said of it; and should this fail, the sync will tell.
void Journal::Impl::begin_to_store(Segment& segment) {
  if (segment.end - segment.begun < kBegunBytes) return;
  (void)segment.file->advise(io::Advice::kDontNeed, segment.begun, segment.end - segment.begun);
  segment.begun = segment.end / kPageBytes * kPageBytes;
}

// Where the file system took space for a write after all, and had none, the journal goes on. But
// the record may be there in full, and must not come back.
Error Journal::Impl::undo_write(Segment& segment, const Error& error) {
  if (error.code == ErrorCode::kIo) return refused(error);
  const std::array<std::byte, kRecordHeaderBytes> zeros{};
  if (segment.file->write(segment.end, zeros).ok()) return error;
  const Lock state(state_);
  return fail(state, error);
}

Result<void> Journal::Impl::make_room(uint64_t total_bytes) {
  {
    const Lock state(state_);
    PENSTOCK_TRY(check_usable(state));
  }
  if (current_ != nullptr && total_bytes <= current_->bytes - current_->end) return {};
  const Result<void> begun = begin_segment();
  return begun.ok() ? begun : refused(begun.error());
}

Result<void> Journal::Impl::begin_segment() {
  SegmentHeader header;
  header.volume = options_.volume;
  header.salt = random_salt();
  header.bytes = options_.segment_bytes;
  header.time_ns = now_ns();
  std::optional<Spare> spare;
  {
    const Lock state(state_);
    if (live_bytes(state) + options_.segment_bytes > options_.limit_bytes) {
      return make_error(ErrorCode::kBusy,
                        fmt::format("the journal in {} is full: {} wait to be committed",
                                    files_.directory(), format_size(live_bytes(state))),
                        /*retryable=*/true);
    }
    header.number = next_number_++;
    header.first = last_ + 1;
    header.synced = synced_;
    if (!spares_.empty()) {
      spare = std::move(spares_.back());
      spares_.pop_back();
    }
  }
  Result<SegmentRef> begun = files_.put_into_use(header, spare ? &*spare : nullptr);
  // A spare that somebody removed is none any more.
  if (spare && !begun.ok() && begun.error().code == ErrorCode::kNotFound) return begin_segment();
  const Lock state(state_);
  if (!begun.ok()) {
    if (spare) spares_.push_back(std::move(*spare));
    return begun.error();
  }
  live_[header.number] = *begun;
  current_ = std::move(*begun);
  return {};
}

Result<void> Journal::Impl::sync() {
  Lock state(state_);
  PENSTOCK_TRY(check_usable(state));
  const uint64_t wanted = last_;
  if (synced_ >= wanted) return {};
  const WaitingFor wait("the drive of the journal to sync");
  while (synced_ < wanted) {
    if (failed_) return *failed_;
    if (syncing_) {
      sync_done_.wait(state);
    } else {
      sync_round(state);
    }
  }
  return {};
}

// Makes durable what is there now, for all that wait meanwhile.
void Journal::Impl::sync_round(Lock& state) {
  syncing_ = true;
  const uint64_t goal = last_;
  std::vector<std::shared_ptr<io::File>> files;
  for (const auto& [number, segment] : live_) {
    if (segment->last > synced_) files.push_back(segment->file);
  }
  state.unlock();
  Result<void> synced;
  const auto begun = std::chrono::steady_clock::now();
  for (const auto& file : files) {
    synced = file->data_sync();
    if (!synced.ok()) break;
  }
  metrics_.journal_sync_seconds.record(std::chrono::steady_clock::now() - begun);
  state.lock();
  syncing_ = false;
  if (synced.ok()) {
    synced_ = std::max(synced_, goal);
  } else {
    (void)fail(state, synced.error());
  }
  sync_done_.notify_all();
}

}  // namespace penstock::volume
