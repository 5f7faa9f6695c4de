#include "volume/recover.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "volume/host_files.h"
#include "volume/journal_salvage.h"
#include "volume/journal_scan.h"
#include "volume/object_format.h"
#include "volume/operation_text.h"
#include "volume/recover_files.h"

namespace penstock::volume {

namespace {

constexpr uint64_t kCopyBytes = 4 * kMiB;

Result<void> copy_file(io::FileSystem& fs, const std::string& from, const std::string& to) {
  const auto source = PENSTOCK_TRY(fs.open(from, {}));
  const auto target = PENSTOCK_TRY(
      fs.open(to, {.access = io::Access::kReadWrite, .create = io::Create::kMustNotExist}));
  std::vector<std::byte> buffer(kCopyBytes);
  uint64_t at = 0;
  while (const size_t count = PENSTOCK_TRY(source->read(at, buffer))) {
    PENSTOCK_TRY(target->write(at, std::span(buffer).first(count)));
    at += count;
  }
  return {};
}

SegmentHeader new_segment_header(const VolumeUuid& volume, uint64_t number, uint64_t bytes,
                                 uint64_t committed) {
  SegmentHeader header;
  header.volume = volume;
  header.number = number;
  const VolumeUuid random = random_uuid();
  std::memcpy(&header.salt, random.data(), sizeof(header.salt));
  header.bytes = std::max(bytes, kSegmentBytesMin);
  header.first = committed + 1;
  header.synced = committed;
  header.time_ns =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return header;
}

// Zeros from the first record behind `committed` on: nothing is left that could be taken for one.
Result<void> cut_segment(const Segment& segment, uint64_t committed) {
  SegmentScan scan(segment);
  uint64_t at = kSegmentHeaderBytes;
  while (at < segment.bytes) {
    const auto found = PENSTOCK_TRY(scan.record_at(at, /*known=*/UINT64_MAX));
    if (found && found->header.sequence > committed) break;
    at += found ? found->header.total_bytes() : kRecordAlignment;
  }
  const std::vector<std::byte> zeros(kCopyBytes);
  while (at < segment.bytes) {
    const uint64_t step = std::min<uint64_t>(zeros.size(), segment.bytes - at);
    PENSTOCK_TRY(segment.file->write(at, std::span(zeros).first(step)));
    at += step;
  }
  return segment.file->sync();
}

class Recovery {
 public:
  Recovery(io::FileSystem& fs, const HostFiles& files, const RecoverOptions& options)
      : fs_(fs), host_(files), options_(options), files_(fs, options.to) {}

  Result<RecoverReport> run();

 private:
  Result<void> prepare();
  Result<void> save_all();
  Result<void> open_copy();
  Result<void> remove_copy();
  Result<void> save(const SalvagedRecord& found);
  // What the operation does to names, as far as it is certain which state it belongs to.
  void follow(const SalvagedRecord& found, const Operation& operation);
  void name_files();
  Result<void> set_aside();
  Result<std::string> free_name();
  Result<void> keep_segments(const std::string& fresh);
  Result<void> keep_segment(const std::string& fresh, uint64_t number);
  std::string copy_path() const { return options_.to + "/metadata-copy.db"; }

  io::FileSystem& fs_;
  const HostFiles& host_;
  const RecoverOptions& options_;
  RecoveredFiles files_;
  RecoverReport report_;
  std::unique_ptr<io::File> list_;
  uint64_t list_bytes_ = 0;
  // Of a copy: opening it changes it.
  std::unique_ptr<meta::Database> database_;
  std::map<VolumeUuid, std::unique_ptr<meta::Namespace>> names_;
  uint64_t committed_ = 0;
  uint64_t followed_ = 0;  // The last operation that the copy has, without a gap.
  bool following_ = true;
  uint64_t highest_segment_ = 0;
  uint64_t segment_bytes_ = 0;
};

Result<void> Recovery::prepare() {
  PENSTOCK_TRY(io::make_directories(fs_, options_.to));
  bool empty = true;
  PENSTOCK_TRY(fs_.list(options_.to, [&](const io::DirectoryEntry&) {
    empty = false;
    return false;
  }));
  if (!empty) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{} is not empty: give a new directory", options_.to));
  }
  list_ = PENSTOCK_TRY(
      fs_.open(options_.to + "/operations.jsonl",
               {.access = io::Access::kReadWrite, .create = io::Create::kMustNotExist}));
  return {};
}

// Without a database that can be read nothing is known of names, which is no reason to save nothing.
Result<void> Recovery::open_copy() {
  for (const char* suffix : {"", "-wal"}) {
    const Result<void> copied = copy_file(fs_, host_.database() + suffix, copy_path() + suffix);
    if (!copied.ok() && copied.error().code != ErrorCode::kNotFound) return copied;
  }
  Result<std::unique_ptr<meta::Database>> opened = meta::open_sqlite(fs_, copy_path(), {});
  if (!opened.ok()) {
    report_.damage.push_back(fmt::format("the database cannot be read, so names are not known: {}",
                                         opened.error().detail));
    return {};
  }
  database_ = std::move(*opened);
  committed_ = followed_ = database_->journal().sequence;
  for (const std::string& name : PENSTOCK_TRY(database_->volumes())) {
    std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_->open(name));
    const VolumeUuid uuid = names->settings().uuid;
    names_.emplace(uuid, std::move(names));
  }
  return {};
}

Result<void> Recovery::remove_copy() {
  names_.clear();
  database_.reset();
  for (const char* suffix : {"", "-wal", "-wal.tmp", "-journal"}) {
    const Result<void> removed = fs_.remove(copy_path() + suffix);
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

Result<void> Recovery::save(const SalvagedRecord& found) {
  const Result<Operation> operation = decode_operation(found.record);
  std::string fields;
  if (operation.ok()) {
    fields = fmt::format("\"time\": {}, \"volume\": \"{}\", {}", operation->now,
                         uuid_text(operation->volume), operation_fields(*operation));
    if (!found.content.empty()) fields += fmt::format(", \"bytes\": {}", found.content.size());
    follow(found, *operation);
    PENSTOCK_TRY(files_.apply(*operation, found.content));
  } else {
    fields = fmt::format("\"error\": \"{}\"", json_escape(operation.error().detail));
    report_.damage.push_back(
        fmt::format("record {}: {}", found.place.sequence, operation.error().detail));
  }
  const std::string line = fmt::format("{{\"sequence\": {}, {}}}\n", found.place.sequence, fields);
  PENSTOCK_TRY(list_->write(list_bytes_, std::as_bytes(std::span(line))));
  list_bytes_ += line.size();
  ++report_.operations;
  return {};
}

void Recovery::follow(const SalvagedRecord& found, const Operation& operation) {
  const auto names = names_.find(operation.volume);
  following_ = following_ && found.segment.volume == host_.uuid &&
               found.place.sequence == followed_ + 1 && names != names_.end();
  if (!following_) return;
  followed_ = found.place.sequence;
  const bool is_write = std::holds_alternative<WriteOp>(operation.action);
  const meta::ObjectId segment = journal_object(found.place.segment);
  // Known already, mostly.
  if (is_write) {
    (void)database_->add_object({.id = segment,
                                 .kind = meta::ObjectKind::kJournal,
                                 .state = meta::ObjectState::kStored,
                                 .bytes = found.segment.bytes});
  }
  const meta::Place there{.object = segment,
                          .offset = found.place.offset,
                          .stored = found.place.bytes,
                          .raw = found.content.size(),
                          .checksum = found.place.sequence};
  const Result<Outcome> applied = apply(
      *names->second, operation, is_write ? std::span(&there, 1) : std::span<const meta::Place>());
  following_ = applied.ok() || is_write;
}

void Recovery::name_files() {
  for (const auto& [uuid, names] : names_) {
    const Result<void> named = files_.name(uuid, names->settings().name, *names);
    if (named.ok()) continue;
    report_.damage.push_back(fmt::format("not all names are known: {}", named.error().detail));
  }
}

Result<RecoverReport> Recovery::run() {
  PENSTOCK_TRY(prepare());
  Result<void> done = save_all();
  if (done.ok() && options_.discard) done = set_aside();
  const Result<void> removed = remove_copy();
  if (!done.ok()) return done.error();
  if (!removed.ok()) return removed.error();
  return std::move(report_);
}

Result<void> Recovery::save_all() {
  PENSTOCK_TRY(open_copy());
  Salvaged salvaged = PENSTOCK_TRY(salvage_journal(
      fs_, host_.journal(),
      // What is of another volume this database has nothing of.
      [this](const SegmentHeader& header) {
        return header.volume == host_.uuid ? committed_ : uint64_t{0};
      },
      [this](const SalvagedRecord& found) { return save(found); }));
  name_files();
  highest_segment_ = salvaged.highest_segment;
  segment_bytes_ = salvaged.segment_bytes;
  std::ranges::move(salvaged.damage, std::back_inserter(report_.damage));
  report_.files = files_.count();
  report_.bytes = files_.bytes();
  PENSTOCK_TRY(list_->sync());
  PENSTOCK_TRY(files_.sync());
  if (salvaged.unsupported.empty()) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("not all of the journal can be read: {}. Use the version of "
                                "Penstock that wrote it; nothing was changed",
                                salvaged.unsupported.front()));
}

// The new journal is made under the name that the old one will have, and takes its place at once.
Result<void> Recovery::set_aside() {
  if (database_ == nullptr) {
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format("all was saved in {}, but the database cannot be read, and so the "
                    "journal stays",
                    options_.to));
  }
  const std::string aside = PENSTOCK_TRY(free_name());
  PENSTOCK_TRY(keep_segments(aside));
  const Result<void> exchanged = fs_.rename(aside, host_.journal(), io::RenameMode::kExchange);
  if (!exchanged.ok() && exchanged.error().code != ErrorCode::kUnsupported) return exchanged;
  if (!exchanged.ok()) {
    PENSTOCK_TRY(fs_.rename(host_.journal(), aside + "-old"));
    PENSTOCK_TRY(fs_.rename(aside, host_.journal()));
    PENSTOCK_TRY(fs_.rename(aside + "-old", aside));
  }
  PENSTOCK_TRY(fs_.sync_directory(host_.directory));
  report_.set_aside = aside;
  return {};
}

Result<std::string> Recovery::free_name() {
  for (int number = 1;; ++number) {
    std::string name = fmt::format("{}.aside-{}", host_.journal(), number);
    const Result<io::FileInfo> there = fs_.stat(name);
    if (!there.ok() && there.error().code == ErrorCode::kNotFound) return name;
    if (!there.ok()) return there.error();
  }
}

// What the database refers to, and one that numbers go on from.
Result<void> Recovery::keep_segments(const std::string& fresh) {
  JournalFiles files(fs_, fresh, host_.uuid);
  PENSTOCK_TRY(files.make_directory());
  uint64_t highest = highest_segment_;
  // As it was before operations were followed: those that are known to the database on the drive.
  for (const meta::Object& object : PENSTOCK_TRY(database_->segments())) {
    highest = std::max<uint64_t>(highest, object.id.number);
    PENSTOCK_TRY(keep_segment(fresh, object.id.number));
  }
  const SegmentHeader header =
      new_segment_header(host_.uuid, highest + 1, segment_bytes_, committed_);
  PENSTOCK_TRY(files.put_into_use(header, nullptr));
  return files.sync_names();
}

// Without what comes behind the last record that is committed: that is what is discarded.
Result<void> Recovery::keep_segment(const std::string& fresh, uint64_t number) {
  const std::string name = "/" + journal_file_name(kSegmentPrefix, number);
  const Result<void> copied = copy_file(fs_, host_.journal() + name, fresh + name);
  if (!copied.ok() && copied.error().code == ErrorCode::kNotFound) return {};
  if (!copied.ok()) return copied;
  JournalFiles files(fs_, fresh, host_.uuid);
  const Result<SegmentRef> segment = files.open_segment(number);
  // Of another volume, or damaged: a journal with it could not be opened.
  if (!segment.ok() || (*segment)->damage || (*segment)->header.first > committed_) {
    return fs_.remove(fresh + name);
  }
  return cut_segment(**segment, committed_);
}

}  // namespace

Result<RecoverReport> recover_journal(io::FileSystem& fs, const std::string& directory,
                                      const RecoverOptions& options) {
  const HostFiles files = PENSTOCK_TRY(find_host(fs, directory));
  const std::unique_ptr<io::FileLock> lock = PENSTOCK_TRY(lock_host(fs, directory));
  return Recovery(fs, files, options).run();
}

Error explain_recovery(const Error& error, const std::string& directory) {
  if (error.code != ErrorCode::kCorrupt && error.code != ErrorCode::kInvalid &&
      error.code != ErrorCode::kUnsupported) {
    return error;
  }
  Error explained = error;
  // It is no mistake in what was asked for.
  if (error.code == ErrorCode::kInvalid) explained.code = ErrorCode::kCorrupt;
  explained.detail = fmt::format(
      "{}. The journal cannot be replayed onto the volume. Nothing was changed. To save what it "
      "holds: penstock volume recover {} --to DIR (with --discard the volume then opens without "
      "it)",
      error.detail, directory);
  return explained;
}

}  // namespace penstock::volume
