#include "data/dataset.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "data/sequential_reader.h"
#include "data/window_reader.h"

namespace penstock::data {

namespace {

constexpr uint64_t kIndexBytesMin = 256 * kMiB;  // Where the system does not tell.

// A stream with all that it reads from.
class OwningReader final : public SequentialReader {
 public:
  static Result<std::unique_ptr<SequentialReader>> open(std::unique_ptr<ShardFile> file,
                                                        Compression compression) {
    std::unique_ptr<OwningReader> reader(new OwningReader(std::move(file)));
    reader->reader_ = PENSTOCK_TRY(make_sequential_reader(reader->window_, compression));
    return std::unique_ptr<SequentialReader>(std::move(reader));
  }

  Result<size_t> read(std::span<std::byte> into) override { return reader_->read(into); }
  Result<uint64_t> skip(uint64_t bytes) override { return reader_->skip(bytes); }
  uint64_t offset() const override { return reader_->offset(); }

 private:
  explicit OwningReader(std::unique_ptr<ShardFile> file)
      : file_(std::move(file)), window_(*file_, {}) {}

  const std::unique_ptr<ShardFile> file_;
  WindowReader window_;
  std::unique_ptr<SequentialReader> reader_;
};

uint64_t index_limit(const OpenOptions& options) {
  if (options.index_memory_bytes > 0) return options.index_memory_bytes;
  const auto pages = static_cast<uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  return std::max(pages * page_bytes / 8, kIndexBytesMin);
}

// A get of just this version, so that a cache in front need not ask which one there is.
store::GetOptions version_named(const store::ObjectInfo& object) {
  store::GetOptions options;
  if (object.etag.empty()) return options;
  options.if_match = object.etag;
  options.size = object.size;
  return options;
}

Error other_size(const std::string& name, uint64_t now, uint64_t before) {
  return make_error(
      ErrorCode::kChanged,
      fmt::format("{} has {} bytes and had {} when the dataset was opened", name, now, before));
}

store::ObjectInfo object_of(const Found& found, uint32_t shard) {
  return found.shards[shard].object;
}

}  // namespace

DatasetImpl::DatasetImpl(std::unique_ptr<Found> found, std::unique_ptr<IndexSet> indexes,
                         const OpenOptions& options)
    : found_(std::move(found)),
      indexes_(std::move(indexes)),
      cache_(options.cache),
      mode_(options.mode),
      memory_(found_->shards.size() + found_->folders.size(), index_limit(options)) {
  add_found_shards();
  add_found_folders();
  for (const Source& source : found_->sources) local_ = local_ && source.by_path;
  set_mode(options.mode);
}

void DatasetImpl::set_mode(io::CacheMode mode) {
  mode_ = mode;
  files_ = std::make_unique<OpenFiles>(OpenFiles::default_limit(), [this](uint32_t shard) {
    return open_unchanged(source_of(shard), object_of(*found_, shard), mode_);
  });
  mode_ = find_mode();
}

DatasetImpl::~DatasetImpl() = default;

void DatasetImpl::add_shard(Shard shard) {
  shard.first_sample = samples_;
  samples_ += shard.samples;
  bytes_ += shard.size;
  if (found_->sources[shard.store].far) far_bytes_ += shard.size;
  sequential_only_ = sequential_only_ || shard.compression != Compression::kNone;
  firsts_.push_back(shard.first_sample);
  shards_.push_back(std::move(shard));
}

void DatasetImpl::add_found_shards() {
  for (size_t i = 0; i < found_->shards.size(); ++i) {
    const FoundShard& shard = found_->shards[i];
    add_shard({.name = found_->sources[shard.source].name_of(shard.object.key),
               .store = shard.source,
               .key = shard.object.key,
               .size = shard.object.size,
               .version = shard.object.etag,
               .compression = indexes_->compression(i),
               .samples = indexes_->samples(i)});
  }
}

void DatasetImpl::add_found_folders() {
  for (FoundFolder& folder : found_->folders) {
    const IndexRef index = memory_.add(static_cast<uint32_t>(shards_.size()),
                                       std::move(folder.shard.index), /*stays=*/true);
    std::string name = found_->sources[folder.source].name_of(folder.shard.folder);
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    add_shard({.name = std::move(name),
               .store = folder.source,
               .key = folder.shard.folder,
               .size = folder.shard.bytes,
               .loose = true,
               .label = folder.shard.label,
               .samples = index->samples()});
  }
}

// That of the first file stands for all.
io::CacheMode DatasetImpl::find_mode() {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const Source& source = source_of(shard);
    if (!source.by_path || shards_[shard].samples == 0) continue;
    const std::string key = shards_[shard].loose
                                ? shards_[shard].key + memory_.find(shard)->path(0, 0)
                                : shards_[shard].key;
    const auto file = source.fs->open(source.path_of(key), {.mode = mode_, .require_mode = false});
    return file.ok() ? (*file)->mode() : mode_;
  }
  return io::CacheMode::kBuffered;
}

uint32_t DatasetImpl::shard_of(uint64_t sample) const {
  const auto after = std::ranges::upper_bound(firsts_, sample);
  return static_cast<uint32_t>(after - firsts_.begin() - 1);
}

Result<DatasetImpl::IndexRef> DatasetImpl::index_of(uint32_t shard) {
  if (IndexRef index = memory_.find(shard)) return index;
  IndexRef index = PENSTOCK_TRY(indexes_->load(shard));
  return memory_.add(shard, std::move(index), /*stays=*/!indexes_->is_kept(shard));
}

Result<SamplePlace> DatasetImpl::place(uint64_t sample) {
  const uint32_t shard = shard_of(sample);
  const auto within = static_cast<uint32_t>(sample - firsts_[shard]);
  SamplePlace place{shard, within, PENSTOCK_TRY(index_of(shard)), {}};
  place.members = place.index->members(within);
  return place;
}

Result<std::shared_ptr<const ShardIndex>> DatasetImpl::shard_index(uint32_t shard) {
  return index_of(shard);
}

Result<void> DatasetImpl::check_read(uint32_t shard, uint64_t offset, uint64_t length) const {
  const Shard& of = shards_[shard];
  if (of.loose || of.compression != Compression::kNone) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} cannot be read by offsets: it is {}", of.name,
                                  of.loose ? "a folder" : "compressed"));
  }
  return check_range(of.name, of.size, offset, length);
}

void DatasetImpl::async_read(uint32_t shard, uint64_t offset, io::MemorySlice into,
                             std::function<void(Result<void>)> done) {
  Result<void> checked = check_read(shard, offset, into.size);
  if (!checked.ok() || into.size == 0) return answer_later(std::move(checked), std::move(done));
  if (source_of(shard).by_path) return read_from_file(shard, offset, into, std::move(done));
  read_from_store(shard, offset, into, std::move(done));
}

// One allocation holds all that a read needs, so that its `done` is a pointer.
struct DatasetImpl::LocalRead {
  OpenFiles::Use use;
  const std::string& name;
  uint64_t offset;
  uint64_t wanted;
  std::function<void(Result<void>)> done;
};

void DatasetImpl::read_from_file(uint32_t shard, uint64_t offset, io::MemorySlice into,
                                 std::function<void(Result<void>)> done) {
  Result<OpenFiles::Use> use = files_->use(shard);
  if (!use.ok()) return answer_later(use.error(), std::move(done));
  auto* const read =
      new LocalRead{std::move(*use), shards_[shard].name, offset, into.size, std::move(done)};
  read->use.file().submit(io::IoRequest::read(offset, into, [read](Result<size_t> got) {
    // The file may be closed by others from the moment this is gone: so `done` comes before.
    const std::unique_ptr<LocalRead> owned(read);
    if (got.ok() && *got < read->wanted) {
      return read->done(short_read(read->name, read->offset, read->wanted));
    }
    read->done(got.ok() ? Result<void>() : std::move(got).error());
  }));
}

void DatasetImpl::read_from_store(uint32_t shard, uint64_t offset, io::MemorySlice into,
                                  std::function<void(Result<void>)> done) {
  const Shard& of = shards_[shard];
  store::GetOptions options;
  options.if_match = of.version;
  options.size = of.size;
  source_of(shard).store->async_get(of.key, offset, std::span(into.data, into.size),
                                    std::move(options),
                                    [&name = of.name, offset, wanted = into.size,
                                     done = std::move(done)](Result<store::GetResult> got) {
                                      if (!got.ok()) return done(std::move(got).error());
                                      if (got->bytes < wanted)
                                        return done(short_read(name, offset, wanted));
                                      done({});
                                    });
}

void DatasetImpl::answer_later(Result<void> answer, std::function<void(Result<void>)> done) {
  io::CompletionThread::Item item;
  item.done = [answer = std::move(answer), done = std::move(done)](Result<size_t>) {
    done(answer);
  };
  answers_.post(std::move(item));
}

Result<void> DatasetImpl::read_now(uint32_t shard, uint64_t offset, std::span<std::byte> into) {
  PENSTOCK_TRY(check_read(shard, offset, into.size()));
  if (!source_of(shard).by_path) {
    return make_error(ErrorCode::kInvalid, "only local shards can be read on the caller's thread");
  }
  const OpenFiles::Use use = PENSTOCK_TRY(files_->use(shard));
  if (PENSTOCK_TRY(copy_mapped(shard, use.file(), offset, into))) return {};
  const size_t got = PENSTOCK_TRY(use.file().read(offset, into));
  if (got < into.size()) return short_read(shards_[shard].name, offset, into.size());
  return {};
}

uint64_t DatasetImpl::map_shards() {
  const bool plain = found_->folders.empty() && !sequential_only_;
  if (!plain || mode_ != io::CacheMode::kBuffered || !local_ || far_bytes_ > 0) return 0;
  maps_ = std::make_unique<ShardMaps>(shards_.size());
  return bytes_;
}

Result<bool> DatasetImpl::copy_mapped(uint32_t shard, io::File& file, uint64_t offset,
                                      std::span<std::byte> into) {
  const io::FileMap* const map = maps_ != nullptr ? maps_->find(shard, file) : nullptr;
  if (map == nullptr || map->bytes().size() < shards_[shard].size) return false;
  std::memcpy(into.data(), map->bytes().data() + offset, into.size());
  // Of a file that became shorter, the rest of its last page reads as zeros, and only pages after that
  // one are lost.
  const bool whole = !map->lost() && PENSTOCK_TRY(file.stat()).size >= offset + into.size();
  if (whole) return true;
  return short_read(shards_[shard].name, offset, into.size());
}

void DatasetImpl::will_need(uint32_t shard, uint64_t offset, uint64_t length) {
  if (mode_ != io::CacheMode::kBuffered || shards_[shard].loose) return;
  if (!source_of(shard).by_path) return;
  const Result<OpenFiles::Use> use = files_->use(shard);
  if (use.ok()) (void)use->file().advise(io::Advice::kWillNeed, offset, length);
}

void DatasetImpl::fill_page_cache(uint32_t shard, uint64_t offset, uint64_t length) {
  if (mode_ != io::CacheMode::kBuffered || shards_[shard].loose) return;
  if (!source_of(shard).by_path || source_of(shard).far) return;
  if (filled_.empty()) filled_.resize(shards_.size());
  filled_[shard].add(shards_[shard].size, offset, length, [&](uint64_t begin, uint64_t bytes) {
    const Result<OpenFiles::Use> use = files_->use(shard);
    if (use.ok()) (void)use->file().advise(io::Advice::kFill, begin, bytes);
  });
}

store::ObjectInfo DatasetImpl::loose_object(const SamplePlace& place, size_t member) const {
  const LooseShard& folder = found_->folders[place.shard - found_->shards.size()].shard;
  // All indexes of folders are of this class: add_found_folders().
  const auto& index = static_cast<const ColumnIndex&>(*place.index);
  return {.key = folder.folder + index.path(place.sample, member),
          .size = place.members[member].size,
          .etag = folder.etags.at(index.member_number(place.sample, member))};
}

// Of a dataset that is partly in a store, and so not local(): rare, and one after the other is enough.
void DatasetImpl::read_file_aside(const SamplePlace& place, size_t member, io::MemorySlice into,
                                  std::function<void(Result<void>)> done) {
  io::CompletionThread::Item item;
  item.done = [this, place, member, into, done = std::move(done)](Result<size_t>) {
    const Result<uint64_t> size = read_loose(place, member, std::span(into.data, into.size));
    if (!size.ok()) return done(size.error());
    if (*size == into.size) return done({});
    done(other_size(loose_object(place, member).key, *size, into.size));
  };
  answers_.post(std::move(item));
}

void DatasetImpl::async_read_loose(const SamplePlace& place, size_t member, io::MemorySlice into,
                                   std::function<void(Result<void>)> done) {
  const Source& source = source_of(place.shard);
  if (source.by_path) return read_file_aside(place, member, into, std::move(done));
  store::ObjectInfo object = loose_object(place, member);
  store::GetOptions options = version_named(object);
  // No bytes are a question to the store.
  source.store->async_get(object.key, 0, std::span(into.data, into.size), std::move(options),
                          [name = source.name_of(object.key), wanted = into.size,
                           done = std::move(done)](Result<store::GetResult> got) {
                            if (!got.ok()) return done(std::move(got).error());
                            if (got->info.size != wanted)
                              return done(other_size(name, got->info.size, wanted));
                            if (got->bytes < wanted) return done(short_read(name, 0, wanted));
                            done({});
                          });
}

Result<uint64_t> DatasetImpl::read_loose(const SamplePlace& place, size_t member,
                                         std::span<std::byte> into) {
  const Source& source = source_of(place.shard);
  const store::ObjectInfo object = loose_object(place, member);
  if (!source.by_path) {
    return PENSTOCK_TRY(source.store->get(object.key, 0, into, version_named(object))).info.size;
  }
  const std::string path = source.path_of(object.key);
  const std::unique_ptr<io::File> file =
      PENSTOCK_TRY(source.fs->open(path, {.mode = mode_, .require_mode = false}));
  const uint64_t size = PENSTOCK_TRY(file->stat()).size;
  if (size > into.size()) return size;
  const size_t got = PENSTOCK_TRY(file->read(0, into.first(size)));
  if (got < size)
    return make_error(ErrorCode::kChanged, path + " became shorter while it was read");
  return size;
}

Result<std::unique_ptr<SequentialReader>> DatasetImpl::read_in_order(uint32_t shard) {
  const Shard& of = shards_[shard];
  if (of.loose) {
    return make_error(ErrorCode::kInvalid, of.name + " is a folder: its files are read one by one");
  }
  std::unique_ptr<ShardFile> file =
      PENSTOCK_TRY(open_shard_file(source_of(shard), found_->shards[shard].object, mode_));
  return OwningReader::open(std::move(file), of.compression);
}

std::unique_ptr<cache::Stager> DatasetImpl::make_stager(uint32_t store,
                                                        const cache::StageOptions& options) {
  cache::CachedStore* const cached = found_->sources[store].cached;
  return cached == nullptr ? nullptr : cached->make_stager(options);
}

}  // namespace penstock::data
