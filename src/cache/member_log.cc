#include "cache/member_log.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::cache {

namespace {

constexpr size_t kReadBytes = 64 * 1024;
static_assert(kReadBytes % kRecordBytes == 0);

// What may be left out when nobody reads: it costs only knowledge.
bool dispensable(const LogRecord& record) {
  const Note* note = std::get_if<Note>(&record);
  return (note != nullptr && !note->changes_files()) || std::holds_alternative<Tally>(record);
}

}  // namespace

std::string log_path(const std::string& folder, const std::string& member, uint32_t file) {
  if (file == 0) return fmt::format("{}/{}.log", folder, member);
  return fmt::format("{}/{}.{}.log", folder, member, file);
}

Result<bool> LogWriter::prepare(const Terms& terms, const Standing& standing) {
  if (file_ != nullptr && (offset_ < kLogFileBytes || pending())) return false;
  if (file_ != nullptr) {
    crowded_ = PENSTOCK_TRY(crowded());
    if (crowded_) return false;
  }
  PENSTOCK_TRY(open_next());
  append_record(pending_, terms);
  append_record(pending_, standing);
  return true;
}

Result<bool> LogWriter::crowded() {
  while (oldest_ < next_) {
    const Result<io::FileInfo> there = fs_.stat_link(log_path(folder_, member_, oldest_));
    if (there.ok()) break;
    if (there.error().code != ErrorCode::kNotFound) return there.error();
    ++oldest_;
  }
  return next_ - oldest_ >= kLogFilesMax;
}

Result<void> LogWriter::open_next() {
  Result<std::unique_ptr<io::File>> file =
      fs_.open(log_path(folder_, member_, next_),
               {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
  // Never the same twice: the reader takes a number for granted once it has seen it.
  if (file.ok() || file.error().code == ErrorCode::kExists) ++next_;
  if (!file.ok()) return file.error();
  file_ = std::move(*file);
  offset_ = 0;
  crowded_ = false;
  return {};
}

bool LogWriter::add(const LogRecord& record) {
  if (crowded_ && (dispensable(record) || offset_ > 2 * kLogFileBytes)) return false;
  const uint64_t pending_max = dispensable(record) ? kLogPendingBytesMax : 2 * kLogPendingBytesMax;
  if (pending_.size() >= pending_max) return false;
  append_record(pending_, record);
  return true;
}

Result<void> LogWriter::flush() {
  if (pending_.empty()) return {};
  if (file_ == nullptr) return make_error(ErrorCode::kClosed, "no log is open");
  PENSTOCK_TRY(file_->write(offset_, std::as_bytes(std::span(pending_))));
  offset_ += pending_.size();
  pending_.clear();
  return {};
}

Result<void> LogWriter::remove_all() {
  file_.reset();
  pending_.clear();
  crowded_ = false;
  for (; oldest_ < next_; ++oldest_) {
    const Result<void> removed = fs_.remove(log_path(folder_, member_, oldest_));
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

std::vector<Note> LogWriter::take_pending() {
  std::vector<Note> notes;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(pending_));
  for (size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    const auto record = parse_record(bytes.subspan(at).first<kRecordBytes>());
    if (record && std::holds_alternative<Note>(*record)) notes.push_back(std::get<Note>(*record));
  }
  pending_.clear();
  file_.reset();
  return notes;
}

Result<LogReader::Progress> LogReader::read(const std::vector<uint32_t>& files, uint64_t budget,
                                            bool finished,
                                            const std::function<void(const LogRecord&)>& visit) {
  Progress progress;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i] < at_.file) {  // Read before; could not be removed then.
      PENSTOCK_TRY(fs_.remove(log_path(folder_, member_, files[i])));
      continue;
    }
    if (files[i] > at_.file) at_ = {files[i], 0};
    // The writer begins a file only when it is through with the one before.
    const bool last = i + 1 == files.size();
    if (!PENSTOCK_TRY(read_file(budget, finished || !last, progress, visit)) || last) break;
    PENSTOCK_TRY(fs_.remove(log_path(folder_, member_, files[i])));
  }
  return progress;
}

Result<bool> LogReader::read_file(uint64_t& budget, bool finished, Progress& progress,
                                  const std::function<void(const LogRecord&)>& visit) {
  Result<std::unique_ptr<io::File>> file =
      fs_.open(log_path(folder_, member_, at_.file), {.plain_only = true});
  if (!file.ok() && file.error().code == ErrorCode::kNotFound) return true;
  if (!file.ok()) return file.error();
  std::vector<std::byte> bytes(kReadBytes);
  while (true) {
    if (budget < kRecordBytes) {
      progress.more = true;
      return false;
    }
    const size_t wanted = std::min<uint64_t>(bytes.size(), budget / kRecordBytes * kRecordBytes);
    const size_t got = PENSTOCK_TRY((*file)->read(at_.offset, std::span(bytes).first(wanted)));
    const size_t done = parse(std::span(bytes).first(got), finished, progress, visit);
    at_.offset += done;
    budget -= done;
    if (done < got) {  // Half a record, or none: it is waited for, unless none can come.
      if (finished) progress.damaged = true;
      return finished;
    }
    if (got < wanted) return true;
  }
}

size_t LogReader::parse(std::span<const std::byte> bytes, bool finished, Progress& progress,
                        const std::function<void(const LogRecord&)>& visit) {
  size_t done = 0;
  for (; bytes.size() - done >= kRecordBytes; done += kRecordBytes) {
    const auto record = parse_record(bytes.subspan(done).first<kRecordBytes>());
    if (record) {
      visit(*record);
      continue;
    }
    const LogPosition here{at_.file, at_.offset + done};
    if (!finished && stuck_at_ != here) {
      stuck_at_ = here;
      stuck_since_ = std::chrono::steady_clock::now();
    }
    if (!finished && !waited_enough()) break;
    // The next in the same run was there as long as this one.
    stuck_at_ = {here.file, here.offset + kRecordBytes};
    progress.damaged = true;
  }
  return done;
}

bool LogReader::waited_enough() {
  return std::chrono::steady_clock::now() - stuck_since_ >= patience_;
}

}  // namespace penstock::cache
