#include "cache/tier_reads.h"

#include <bit>
#include <cassert>
#include <utility>
#include <vector>

#include "base/log.h"

namespace penstock::cache {

namespace {

using Clock = std::chrono::steady_clock;

// Short: it is made for every miss, and fits where no memory is needed for it.
Error not_found() {
  return make_error(ErrorCode::kNotFound, "not cached");
}

Error busy() {
  return make_error(ErrorCode::kBusy, "no memory", true);
}

// The provider keeps large buffers for reuse by their exact size. So that few sizes are in use,
// most of an entry is read into as much as a fill of it takes, and less into a power of two.
size_t buffer_bytes(uint32_t wanted, uint64_t file_bytes) {
  if (wanted <= kMiB) return wanted;
  return wanted > file_bytes / 2 ? file_bytes : std::bit_ceil(wanted);
}

// Not the drive's fault: something is in the entry's place that cannot be opened.
bool is_about_the_file(const Error& error) {
  return error.code == ErrorCode::kPermission || error.code == ErrorCode::kInvalid ||
         error.code == ErrorCode::kUnsupported;
}

}  // namespace

std::function<void()> TierRead::give_up() {
  return [answer = std::move(done)] { answer(not_found()); };
}

void TierReads::read(const EntryKey& key, const EntryId& version, uint32_t begin, uint32_t length,
                     ReadDone done) {
  assert(length > 0 && begin < key.length && length <= key.length - begin);
  if (!shared_.health.on()) return done(not_found());
  const EntryId id = entry_id(version, key.offset, key.length);
  OpenEntryRef entry = shared_.open.find(id);
  if (entry != nullptr ? entry->key != key : !can_be_entry(key)) return done(not_found());

  std::unique_ptr<TierRead> read = make_read(begin, length, std::move(done));
  read->entry = std::move(entry);
  if (read->entry == nullptr && !prepare_opening(*read, key, version).ok())
    return read->done(not_found());
  if (!shared_.under_way.enter(*read)) return read->done(not_found());
  if (read->entry != nullptr) return read_data(read.release());
  begin_opening(read.release());
}

// A read of nothing, of an entry that is not open.
void TierReads::open_ahead(const EntryKey& key, const EntryId& version) {
  if (!shared_.health.on() || !can_be_entry(key)) return;
  if (shared_.open.find(entry_id(version, key.offset, key.length)) != nullptr) return;
  std::unique_ptr<TierRead> read = make_read(0, 0, [](const Outcome&) {});
  if (!prepare_opening(*read, key, version).ok() || !shared_.under_way.enter(*read)) return;
  begin_opening(read.release());
}

std::unique_ptr<TierRead> TierReads::make_read(uint32_t begin, uint32_t length, ReadDone done) {
  auto read = std::make_unique<TierRead>();
  read->reads = this;
  read->done = std::move(done);
  read->begin = begin;
  read->length = length;
  read->start = Clock::now();
  return read;
}

Result<void> TierReads::prepare_opening(TierRead& read, const EntryKey& key,
                                        const EntryId& version) {
  read.opening = std::make_unique<TierRead::Opening>();
  read.opening->key = key;
  read.opening->name = name_of(key, version);
  read.opening->drive = shared_.drive.get();
  if (read.opening->drive == nullptr) return not_found();
  return {};
}

Result<void> TierReads::take_data_buffer(TierRead& read, const EntryKey& key) {
  Result<io::Buffer> taken =
      shared_.buffers->try_take(buffer_bytes(read.block_bytes(), file_bytes(key)));
  if (taken.ok()) {
    read.buffer = std::move(taken).value();
    return {};
  }
  return taken.error().code == ErrorCode::kBusy ? busy() : not_found();
}

io::IoRequest TierReads::data_request(TierRead* read, io::IoDone done) {
  const OpenEntry& entry = *read->entry;
  const uint64_t offset = entry.header_bytes + uint64_t{read->first_block()} * kBlockBytes;
  return io::IoRequest::read(offset, read->buffer.slice(0, read->block_bytes()), std::move(done));
}

void TierReads::read_data(TierRead* read) {
  if (read->only_opens()) return finish(read, not_found());
  if (const Result<void> taken = take_data_buffer(*read, read->entry->key); !taken.ok())
    return finish(read, taken.error());
  const OpenEntryRef entry = read->entry;  // The read may end, and let go of it, inside submit().
  entry->file->submit(
      data_request(read, [read](Result<size_t> bytes) { read->reads->data_done(read, bytes); }));
}

void TierReads::data_done(TierRead* read, const Result<size_t>& bytes) {
  if (read->answered()) return retire(read);
  if (!bytes.ok()) return failed(read, bytes.error());
  if (*bytes < read->block_bytes()) return cut_short(read);
  const std::span<const std::byte> blocks = read->buffer.bytes().first(read->block_bytes());
  if (!read->entry->sums.verify(read->first_block(), blocks)) return damaged(read);
  const std::span<const std::byte> asked = blocks.subspan(read->begin % kBlockBytes, read->length);
  finish(read, TierBytes{std::move(read->buffer), asked});
}

void TierReads::begin_opening(TierRead* read) {
  const EntryId id = read->opening->name.id;
  switch (shared_.open.find_or_lead(id, read, read->entry)) {
    case OpenEntries::Turn::kFollow:
      return;
    case OpenEntries::Turn::kJoin:
      return follow(read);
    case OpenEntries::Turn::kOpen:
      if (read->entry->key != read->opening->key) return finish(read, not_found());
      return read_data(read);
    case OpenEntries::Turn::kFull:
      return skip(read);
    case OpenEntries::Turn::kLead:
      read->opening->leads = true;
      break;
  }
  Workers::Task task = [read] { read->reads->open_file(read); };
  if (!shared_.workers->try_post(task)) skip(read);
}

// Too many entries are being opened: it goes to the source, if it is a read at all.
void TierReads::skip(TierRead* read) {
  if (!read->only_opens()) shared_.metrics.reads_skipped.add();
  finish(read, not_found());
}

void TierReads::open_file(TierRead* read) {
  if (read->answered() || shared_.stopping || !shared_.health.on())
    return finish(read, not_found());
  const TierRead::Opening& opening = *read->opening;
  shared_.open.make_room();
  Result<std::unique_ptr<io::File>> file = opening.drive->directory->open_entry(opening.name);
  if (!file.ok()) return open_failed(read, file.error());

  auto entry = std::make_unique<OpenEntry>();
  entry->drive = opening.drive;
  entry->key = opening.key;
  entry->name = opening.name;
  entry->header_bytes = header_bytes(opening.key);
  entry->file = std::move(file).value();
  read->entry = Workers::share(shared_.workers, std::move(entry));
  submit_both(read);
}

void TierReads::submit_both(TierRead* read) {
  TierRead::Opening& opening = *read->opening;
  if (!read->only_opens()) {
    if (const Result<void> taken = take_data_buffer(*read, opening.key); !taken.ok())
      return finish(read, taken.error());
  }
  Result<io::Buffer> header = shared_.buffers->try_take(read->entry->header_bytes);
  if (!header.ok()) return finish(read, busy());
  opening.header = std::move(header).value();
  opening.parts_left = read->only_opens() ? 1 : 2;
  const OpenEntryRef entry = read->entry;
  const std::vector<TierRead*> followers = shared_.open.file_opened(opening.name.id, entry);
  // Before the header can be there: whoever has a file waits for its own data too.
  for (TierRead* follower : followers) follower->entry = entry;
  std::vector<io::IoRequest> requests;
  requests.push_back(io::IoRequest::read(0, opening.header.slice(), [read](Result<size_t> bytes) {
    read->opening->header_read = std::move(bytes);
    read->reads->header_done(read);
  }));
  if (!read->only_opens()) {
    requests.push_back(data_request(read, [read](Result<size_t> bytes) {
      read->opening->data_read = std::move(bytes);
      read->reads->part_done(read);
    }));
  }
  entry->file->submit(requests);
  for (TierRead* follower : followers) follow(follower);
}

// The data; the header comes with another read.
void TierReads::follow(TierRead* read) {
  const OpenEntryRef entry = read->entry;
  Result<void> taken = not_found();
  if (entry->key == read->opening->key && !read->only_opens())
    taken = take_data_buffer(*read, entry->key);
  if (!taken.ok()) {
    read->opening->not_asked = taken.error();
    return part_done(read);
  }
  entry->file->submit(data_request(read, [read](Result<size_t> bytes) {
    read->opening->data_read = std::move(bytes);
    read->reads->part_done(read);
  }));
}

void TierReads::header_done(TierRead* read) {
  const TierRead::Opening& opening = *read->opening;
  const Result<size_t>& got = opening.header_read;
  if (got.ok() && *got == opening.header.size()) {
    Result<BlockSums> sums = read_header(opening.header.bytes(), opening.key);
    if (sums.ok()) entry_opened(read, std::move(sums).value());
  }
  part_done(read);
}

void TierReads::entry_opened(TierRead* read, BlockSums sums) {
  read->opening->header = {};
  read->opening->leads = false;
  read->entry->sums = std::move(sums);
  for (TierRead* follower : shared_.open.opened(read->entry->name.id, read->entry))
    part_done(follower);
}

void TierReads::part_done(TierRead* read) {
  if (read->opening->parts_left.fetch_sub(1, std::memory_order_acq_rel) == 1) both_done(read);
}

void TierReads::both_done(TierRead* read) {
  const TierRead::Opening& opening = *read->opening;
  if (opening.leads) return header_failed(read);
  if (opening.no_header) return finish(read, *opening.no_header);
  if (opening.not_asked) return finish(read, *opening.not_asked);
  if (read->only_opens()) return finish(read, not_found());
  data_done(read, opening.data_read);
}

void TierReads::header_failed(TierRead* read) {
  const TierRead::Opening& opening = *read->opening;
  const Result<size_t>& got = opening.header_read;
  if (!got.ok()) return failed(read, got.error());
  if (*got < opening.header.size()) return cut_short(read);
  const Result<BlockSums> sums = read_header(opening.header.bytes(), opening.key);
  if (sums.error().code == ErrorCode::kCorrupt) return damaged(read);
  finish(read, not_found());  // Another's, or of a newer version: not ours to drop.
}

void TierReads::open_failed(TierRead* read, const Error& error) {
  if (error.code == ErrorCode::kBusy) {
    shared_.open.halve();  // Too many open files in the process.
  } else if (is_about_the_file(error)) {
    shared_.drop_later(read->opening->drive, read->opening->name);
  } else if (error.code != ErrorCode::kNotFound && blames_drive(error)) {
    shared_.health.ill(error);
  }
  finish(read, not_found());
}

// Others evict by cutting the file to nothing and removing it. Where this was found through a file
// opened long ago there may be a new one by now. Where it was opened just now, somebody was killed
// between the two, or is about to remove it.
void TierReads::cut_short(TierRead* read) {
  shared_.open.forget(*read->entry);
  if (read->opening != nullptr) {
    shared_.drop_later(read->entry->drive, read->entry->name);
    return finish(read, not_found());
  }
  read->opening = std::make_unique<TierRead::Opening>();
  read->opening->key = read->entry->key;
  read->opening->name = read->entry->name;
  read->opening->drive = read->entry->drive;
  read->entry.reset();
  read->buffer = {};
  begin_opening(read);
}

// On a worker, because it asks the file whether it was only cut short meanwhile.
void TierReads::damaged(TierRead* read) {
  shared_.workers->post([this, read] {
    const OpenEntry& entry = *read->entry;
    const Result<io::FileInfo> info = entry.file->stat();
    if (!info.ok() || info->size >= entry.name.file_bytes()) {
      shared_.count_damage();
      log_once(LogLevel::kWarn, "cache.damage " + shared_.options.path,
               "a cached entry was damaged, and is fetched again; more are only counted",
               {{"directory", shared_.options.path}, {"url", entry.key.version.url}});
    }
    shared_.drop_bad(*entry.drive, entry.name);
    finish(read, not_found());
  });
}

// Where only a few places of a drive have gone bad, it will be found well again, so the entry must
// go: its next reader would switch the drive off once more.
void TierReads::failed(TierRead* read, const Error& error) {
  if (blames_drive(error)) {
    if (!read->answered()) shared_.health.ill(error);
    shared_.drop_later(read->entry->drive, read->entry->name);
  }
  finish(read, not_found());
}

void TierReads::finish(TierRead* read, Outcome outcome) {
  if (read->opening != nullptr && std::exchange(read->opening->leads, false)) {
    for (TierRead* follower : shared_.open.not_opened(read->opening->name.id)) {
      const Error error = outcome.ok() ? not_found() : outcome.error();
      if (follower->entry == nullptr) {
        finish(follower, error);
        continue;
      }
      follower->opening->no_header = error;
      part_done(follower);
    }
  }
  if (read->claim()) {
    if (outcome.ok()) {
      shared_.metrics.hit_seconds.record(Clock::now() - read->start);
      read->entry->drive->keeper->note_used(read->entry->name.id, read->length);
    }
    std::exchange(read->done, nullptr)(std::move(outcome));
  }
  retire(read);
}

// Everything it holds is let go of before it leaves: the tier may be gone afterwards. Save `done`,
// which whoever claimed the read has taken, or, where that is the watchdog, may be taking now.
void TierReads::retire(TierRead* read) {
  const std::unique_ptr<TierRead> owned(read);
  read->buffer = {};
  read->entry.reset();
  read->opening.reset();
  shared_.under_way.leave(*read);
}

}  // namespace penstock::cache
