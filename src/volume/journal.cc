#include "volume/journal.h"

#include <fmt/core.h>

#include <chrono>

#include "volume/journal_impl.h"

namespace penstock::volume {

namespace {

Result<void> check_options(const JournalOptions& options) {
  if (options.segment_bytes < kSegmentBytesMin || options.segment_bytes > kSegmentBytesMax ||
      options.segment_bytes % kPageBytes != 0) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("journal segments of {} bytes: it must be a multiple of {} from {} to {}",
                    options.segment_bytes, kPageBytes, format_size(kSegmentBytesMin),
                    format_size(kSegmentBytesMax)));
  }
  // One is appended to while another waits to be released.
  if (options.limit_bytes / 2 < options.segment_bytes) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("a journal limit of {} holds less than two segments of {}",
                    format_size(options.limit_bytes), format_size(options.segment_bytes)));
  }
  return {};
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

static_assert(Journal::kRecordBytesMax == kBodyBytesMax);

Journal::Impl::Impl(io::FileSystem& fs, std::string directory, const JournalOptions& options)
    : files_(fs, std::move(directory), options.volume), options_(options) {}

Result<void> Journal::Impl::open() {
  PENSTOCK_TRY(check_options(options_));
  PENSTOCK_TRY(files_.make_directory());
  std::lock_guard turn(turn_);
  found_ = PENSTOCK_TRY(files_.list());
  for (const uint64_t number : found_.segments) {
    segments_.push_back(PENSTOCK_TRY(files_.open_segment(number)));
  }
  return {};
}

Result<void> Journal::Impl::check_usable(const Lock&) const {
  if (failed_) return *failed_;
  if (replayed_) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("the journal in {} was not replayed yet", files_.directory()));
}

Error Journal::Impl::fail(const Lock&, const Error& error) {
  if (!failed_) {
    Error final = error;
    final.code = ErrorCode::kIo;
    final.retryable = false;
    final.detail = fmt::format(
        "the journal in {} failed and accepts nothing any more ({}). What was synced before is "
        "safe, up to "
        "record {}. Check the drive (dmesg, smartctl) and open the volume again: what the journal "
        "still "
        "holds is replayed",
        files_.directory(), error.detail, synced_);
    failed_ = std::move(final);
  }
  sync_done_.notify_all();
  return *failed_;
}

Error Journal::Impl::refused(const Error& error) {
  if (error.code != ErrorCode::kIo) return error;
  const Lock state(state_);
  return fail(state, error);
}

int64_t Journal::Impl::now_ns() const {
  if (options_.now_ns) return options_.now_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Journal::Usage Journal::Impl::usage() const {
  const Lock state(state_);
  return {.bytes = live_bytes(state),
          .last = last_,
          .synced = synced_,
          .released = released_,
          .oldest_ns = released_ == last_ ? 0 : ages_.oldest_ns()};
}

uint64_t Journal::Impl::live_bytes(const Lock&) const {
  uint64_t bytes = 0;
  for (const auto& [number, segment] : live_) bytes += segment->bytes;
  return bytes;
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(io::FileSystem& fs, std::string directory,
                                               const JournalOptions& options) {
  auto impl = std::make_unique<Impl>(fs, without_slashes(std::move(directory)), options);
  PENSTOCK_TRY(impl->open());
  return std::unique_ptr<Journal>(new Journal(std::move(impl)));
}

Result<void> Journal::replay(uint64_t committed, const Visit& visit, const Keep& keep) {
  return impl_->replay(committed, visit, keep);
}
Result<JournalPlace> Journal::append(std::span<const std::byte> record,
                                     std::span<const std::byte> content) {
  return impl_->append(record, content);
}
Result<void> Journal::sync() {
  return impl_->sync();
}
Result<void> Journal::read(const JournalPlace& place, uint64_t content_offset,
                           std::span<std::byte> into) {
  return impl_->read(place, content_offset, into);
}
Result<int64_t> Journal::time_of(const JournalPlace& place) {
  return impl_->time_of(place);
}
Result<void> Journal::release(uint64_t sequence, const Keep& keep) {
  return impl_->release(sequence, keep);
}
Journal::Usage Journal::usage() const {
  return impl_->usage();
}

}  // namespace penstock::volume
