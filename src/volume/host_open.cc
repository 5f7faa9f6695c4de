// Making a host, taking it over, and bringing back what its last owner had acknowledged.
#include <fmt/core.h>
#include <unistd.h>

#include <cstring>

#include "base/log.h"
#include "store/object_address.h"
#include "volume/host.h"
#include "volume/host_files.h"
#include "volume/immutable_objects.h"
#include "volume/pending_age.h"
#include "volume/recover.h"
#include "volume/registry.h"
#include "volume/volume.h"
#include "volume/watched_store.h"

namespace penstock::volume {

namespace {

constexpr const char* kMarkerName = "penstock-volume";
constexpr const char* kDatabaseName = "metadata.db";
constexpr const char* kJournalName = "journal";
constexpr const char* kBlocksName = "blocks";
constexpr uint64_t kMemoryBytesMin = 64 * kMiB;
constexpr uint64_t kLoadMemory = 12 * kMiB;  // That a load may take, with what readers hold.

Result<void> check_new(const NewVolume& volume) {
  PENSTOCK_TRY(check_volume_name(volume.name));
  const uint64_t block = volume.block_bytes;
  if (block < 64 * kKiB || block > 16 * kMiB || (block & (block - 1)) != 0) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("a block size of {}: it must be a power of two from 64 KiB to "
                                  "16 MiB",
                                  format_size(block)));
  }
  return {};
}

Result<io::FileSystem*> file_system_of(const HostOptions& options) {
  if (options.file_system != nullptr) return options.file_system;
  return static_cast<io::FileSystem*>(PENSTOCK_TRY(io::process_file_system()));
}

}  // namespace

Result<void> HostImpl::take_lock() {
  lock_ = PENSTOCK_TRY(lock_host(fs_, directory_));
  return {};
}

Result<void> HostImpl::make(const NewVolume& volume) {
  PENSTOCK_TRY(check_new(volume));
  PENSTOCK_TRY(io::make_directories(fs_, directory_));
  PENSTOCK_TRY(take_lock());
  const Result<io::FileInfo> there = fs_.stat(path_of(kMarkerName));
  if (there.ok()) {
    return make_error(ErrorCode::kExists, fmt::format("there is a volume in {}", directory_));
  }
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  // Without a marker nothing was ever promised: what is there was not finished.
  for (const char* suffix : {"", "-wal", "-wal.tmp", "-journal"}) {
    const Result<void> removed = fs_.remove(path_of(kDatabaseName) + suffix);
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  space_ = random_uuid();
  meta::Settings settings;
  settings.uuid = random_uuid();
  settings.name = volume.name;
  settings.block_bytes = volume.block_bytes;
  settings.codec = volume.codec;
  settings.retention = volume.retention;
  settings.store = volume.store;
  settings.quota = volume.quota;
  PENSTOCK_TRY(open_parts({.create = settings, .now = now()}));
  PENSTOCK_TRY(give_root_away(volume.name));
  PENSTOCK_TRY(mark_host(fs_, {directory_, space_}));
  PENSTOCK_TRY(fs_.sync_directory(io::parent_path(directory_)));
  start();
  return {};
}

// The root belongs to whoever makes the volume: others could not make anything in it.
Result<void> HostImpl::give_root_away(const std::string& volume) {
  const uint32_t uid = ::geteuid();
  const uint32_t gid = ::getegid();
  if (uid == 0 && gid == 0) return {};
  const Turn turn(turn_);
  const std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_->open(volume));
  PENSTOCK_TRY(names->change(meta::kRoot, {.uid = uid, .gid = gid}, now()));
  PENSTOCK_TRY(commit_turn(turn));
  return {};
}

Result<void> HostImpl::open() {
  PENSTOCK_TRY(read_marker());
  PENSTOCK_TRY(take_lock());
  PENSTOCK_TRY(open_parts({}));
  PENSTOCK_TRY(collect_nameless());
  start();
  return {};
}

Result<void> HostImpl::read_marker() {
  space_ = PENSTOCK_TRY(find_host(fs_, directory_)).uuid;
  return {};
}

Result<void> HostImpl::open_store(const std::string& address) {
  store::StoreOptions options;
  options.file_system = &fs_;
  const std::string where = address.empty() ? "file:" + path_of(kBlocksName) : address;
  store_ = PENSTOCK_TRY(store::open_store(where, options));
  if (options_.wrap_store) store_ = options_.wrap_store(std::move(store_));
  store_ = watch_store(std::move(store_), gauges_.store_reads_fail);
  if (options_.cache) {
    const auto size_of = [this](meta::ObjectId id) -> std::optional<uint64_t> {
      const Result<meta::Object> object = database_->object(id);
      return object.ok() ? std::optional(object->bytes) : std::nullopt;
    };
    store_ = cache_objects(std::move(store_), options_.cache, size_of);
  }
  return {};
}

Result<void> HostImpl::open_journal() {
  journal_ = PENSTOCK_TRY(Journal::open(fs_, path_of(kJournalName),
                                        {.volume = space_,
                                         .segment_bytes = options_.segment_bytes,
                                         .limit_bytes = journal_limit_bytes(),
                                         .now_ns = options_.now}));
  return replay();
}

Result<void> HostImpl::open_parts(const meta::SqliteOptions& sqlite) {
  database_ = PENSTOCK_TRY(meta::open_sqlite(fs_, path_of(kDatabaseName), sqlite));
  const std::vector<std::string> volumes = PENSTOCK_TRY(database_->volumes());
  if (volumes.empty()) {
    return make_error(ErrorCode::kNotFound, fmt::format("no volume is left in {}", directory_));
  }
  const meta::Settings settings = PENSTOCK_TRY(database_->open(volumes.front()))->settings();
  PENSTOCK_TRY(open_store(settings.store));
  const Result<void> replayed = open_journal();
  if (!replayed.ok()) return explain_recovery(replayed.error(), directory_);
  const uint64_t budget = std::max(options_.memory_bytes, kMemoryBytesMin);
  const auto memory = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = budget}));
  frames_ = std::make_unique<FrameCache>(memory);
  const uint64_t loads = std::min<uint64_t>(budget / kLoadMemory, 64);
  reader_ = std::make_unique<ContentReader>(*journal_, *store_, *frames_,
                                            ReaderOptions{.space = space_,
                                                          .loads_max = static_cast<uint32_t>(loads),
                                                          .io_timeout = options_.io_timeout});
  packer_ = std::make_unique<Packer>(*database_, *reader_, *store_,
                                     PackerOptions{.space = space_, .codec = settings.codec});
  merger_ = std::make_unique<Merger>(*database_, *reader_, *packer_);
  WritebackOptions writeback = options_.writeback;
  writeback.start_bytes = std::min(writeback.start_bytes, writeback.journal_bytes / 2);
  mover_ = std::make_unique<Mover>(
      *database_, *packer_,
      MoverOptions{.writeback = writeback,
                   .when_settled = store::is_object_address(settings.store),
                   .io_timeout = options_.io_timeout,
                   .now = [this] { return now(); },
                   .oldest = [this] { return oldest_content(*database_, *journal_); },
                   .commit = [this] { (void)commit(); },
                   .merge = [this](Deadline deadline) { return merger_->run(deadline); },
                   .failing = &gauges_.store_writes_fail});
  return {};
}

Result<meta::Namespace*> HostImpl::names_of(const VolumeUuid& volume) {
  if (const auto found = names_.find(volume); found != names_.end()) return found->second.get();
  for (const std::string& name : PENSTOCK_TRY(database_->volumes())) {
    std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_->open(name));
    const VolumeUuid uuid = names->settings().uuid;
    names_.insert_or_assign(uuid, std::move(names));
  }
  const auto found = names_.find(volume);
  if (found != names_.end()) return found->second.get();
  return make_error(ErrorCode::kCorrupt,
                    "the journal has an operation of a volume that the database does not know");
}

Result<void> HostImpl::replay_one(const JournalPlace& place, std::span<const std::byte> record,
                                  std::span<const std::byte> content) {
  const Operation operation = PENSTOCK_TRY(decode_operation(record));
  meta::Namespace* const names = PENSTOCK_TRY(names_of(operation.volume));
  const bool is_write = std::holds_alternative<WriteOp>(operation.action);
  const meta::Place there = place_of(place, content.size());
  if (is_write) PENSTOCK_TRY(know_segment(place.segment));
  const Result<Outcome> done =
      apply(*names, operation, is_write ? std::span(&there, 1) : std::span<const meta::Place>());
  // Writes are recorded before it is known whether they succeed. They fail as they did then.
  if (done.ok() || (is_write && done.error().os_errno != 0)) return {};
  return done.error().with_context(
      fmt::format("record {} of the journal cannot be applied", place.sequence));
}

Result<void> HostImpl::replay() {
  const uint64_t committed = database_->journal().sequence;
  for (const meta::Object& object : PENSTOCK_TRY(database_->segments())) {
    segments_.insert(object.id.number);
  }
  const std::set<uint64_t> needed = segments_;
  uint64_t count = 0;
  PENSTOCK_TRY(journal_->replay(
      committed,
      [&](const JournalPlace& place, std::span<const std::byte> record,
          std::span<const std::byte> content) {
        ++count;
        return replay_one(place, record, content);
      },
      [&](uint64_t segment) { return needed.contains(segment); }));
  if (count > 0) {
    log_info("replayed what the last owner of the volume had not committed",
             {{"directory", directory_}, {"operations", count}});
  }
  const Turn turn(turn_);
  PENSTOCK_TRY(commit_turn(turn));
  return {};
}

// Files that were open without a name when the last owner ended: nobody can have them open now.
Result<void> HostImpl::collect_nameless() {
  for (const std::string& name : PENSTOCK_TRY(database_->volumes())) {
    const std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_->open(name));
    const VolumeUuid uuid = names->settings().uuid;
    for (const meta::Ino ino : PENSTOCK_TRY(names->nameless())) {
      PENSTOCK_TRY(perform(*names, uuid, ForgetOp{ino}));
    }
  }
  return {};
}

void HostImpl::start() {
  if (!options_.background) return;
  committer_ = std::thread([this] { run_committer(); });
  mover_->start();
}

Result<std::shared_ptr<Volume>> HostImpl::open(std::string_view name) {
  const std::lock_guard lock(open_mutex_);
  const auto known = open_.find(name);
  if (known != open_.end()) {
    if (std::shared_ptr<Volume> open = known->second.lock()) return open;
  }
  std::unique_ptr<meta::Namespace> names = PENSTOCK_TRY(database_->open(name));
  std::shared_ptr<Volume> volume =
      std::make_shared<VolumeImpl>(shared_from_this(), std::move(names));
  open_.insert_or_assign(std::string(name), volume);
  return volume;
}

Result<void> HostImpl::clone(std::string_view volume, meta::Version version,
                             std::string_view name) {
  const Turn turn(turn_);
  PENSTOCK_TRY(check_usable(turn));
  meta::Settings settings = PENSTOCK_TRY(database_->open(volume))->settings();
  settings.uuid = random_uuid();
  settings.name = name;
  PENSTOCK_TRY(database_->clone(volume, version, settings));
  PENSTOCK_TRY(commit_turn(turn));
  return {};
}

Result<std::shared_ptr<Host>> create_host(const std::string& directory, const NewVolume& volume,
                                          const HostOptions& options) {
  const auto host =
      std::make_shared<HostImpl>(*PENSTOCK_TRY(file_system_of(options)), directory, options);
  PENSTOCK_TRY(host->make(volume));
  return std::shared_ptr<Host>(host);
}

Result<std::shared_ptr<Host>> open_host(const std::string& directory, const HostOptions& options) {
  const auto host =
      std::make_shared<HostImpl>(*PENSTOCK_TRY(file_system_of(options)), directory, options);
  PENSTOCK_TRY(host->open());
  return std::shared_ptr<Host>(host);
}

}  // namespace penstock::volume
