// A random reader of an object that the cache could not hold would pay for whole windows of which
// it uses little. It gets pieces of 64 KiB, kept as entries of their own.
#include <algorithm>
#include <cstring>

#include "cache/cached_store.h"

namespace penstock::cache {

// One piece, as the granules that it touches.
struct CachedStoreImpl::GranuleRead {
  struct Granule {
    Place place;
    uint32_t begin = 0;  // What the piece wants of it.
    std::span<std::byte> into;
    bool found = false;  // On a drive. Written by the one who looked, before its count-down.
  };
  CallRef call;
  Piece piece;
  std::vector<Granule> granules;
  std::atomic<uint32_t> under_way{0};  // Look-ups, then runs.
  std::mutex mutex;
  Result<void> outcome;  // Under the mutex.
};

bool CachedStoreImpl::wants_granules(const Version& version) const {
  return version.info.size > core_->limit_bytes();
}

CachedStoreImpl::Place CachedStoreImpl::granule_of(const Version& version, uint64_t granule) const {
  const uint64_t offset = granule * kGranuleBytes;
  const uint64_t length = std::min<uint64_t>(kGranuleBytes, version.info.size - offset);
  Place place{{version.object, offset, static_cast<uint32_t>(length)}, {}};
  place.id = entry_id(version.id, offset, place.key.length);
  return place;
}

void CachedStoreImpl::read_granules(const CallRef& call, const Piece& piece) {
  const Version& version = *call->version();
  const auto read = std::make_shared<GranuleRead>();
  read->call = call;
  read->piece = piece;
  const uint64_t begin = piece.window * window_bytes() + piece.begin;
  const uint64_t end = begin + piece.into.size();
  for (uint64_t at = begin; at < end;) {
    Place place = granule_of(version, at / kGranuleBytes);
    const uint64_t stop = std::min(end, place.key.offset + place.key.length);
    const auto from = static_cast<uint32_t>(at - place.key.offset);
    read->granules.push_back(
        {std::move(place), from, piece.into.subspan(at - begin, stop - at), false});
    at = stop;
  }
  read->under_way = static_cast<uint32_t>(read->granules.size());
  for (GranuleRead::Granule& granule : read->granules) {
    core_->tier_for(granule.place.id)
        .read(granule.place.key, version.id, granule.begin,
              static_cast<uint32_t>(granule.into.size()),
              [this, read, &granule](Result<TierBytes> got) {
                granule.found = got.ok();
                if (got.ok()) {
                  core_->counters().hits.add();
                  core_->counters().hit_bytes.add(granule.into.size());
                  count_read(granule.place.id, granule.into.size(), 0);
                  (void)read->call->copy(granule.into, got->data);
                  got->buffer = {};
                  core_->memory_freed();
                }
                if (--read->under_way == 0) granules_looked_up(read);
              });
  }
}

// Fetches the missing ones, neighbours in one request.
void CachedStoreImpl::granules_looked_up(const std::shared_ptr<GranuleRead>& read) {
  const std::vector<GranuleRead::Granule>& granules = read->granules;
  std::vector<std::pair<size_t, size_t>> runs;
  for (size_t i = 0; i < granules.size(); ++i) {
    if (granules[i].found) continue;
    note_missed(granules[i].place.id, granules[i].into.size());
    core_->counters().misses.add();
    core_->counters().miss_bytes.add(granules[i].into.size());
    count_read(granules[i].place.id, 0, granules[i].into.size());
    if (!runs.empty() && runs.back().first + runs.back().second == i) {
      ++runs.back().second;
    } else {
      runs.emplace_back(i, 1);
    }
  }
  if (runs.empty()) return end_piece(read->call, {});
  read->under_way = static_cast<uint32_t>(runs.size());
  for (const auto& [first, count] : runs) fetch_granules(read, first, count);
}

void CachedStoreImpl::end_granule_run(const std::shared_ptr<GranuleRead>& read,
                                      const Result<void>& outcome) {
  {
    std::lock_guard lock(read->mutex);
    if (!outcome.ok() && read->outcome.ok()) read->outcome = outcome;
  }
  if (--read->under_way == 0) end_piece(read->call, read->outcome);
}

// All of them or none: what is fetched for one request is either kept or not paid for.
bool CachedStoreImpl::reserve_granules(const GranuleRead& read, size_t first, size_t count) {
  const EntryId& version = read.call->version()->id;
  for (size_t i = first; i < first + count; ++i) {
    const Place& place = read.granules[i].place;
    if (core_->tier_for(place.id).reserve(place.key, version)) continue;
    for (size_t j = first; j < i; ++j) {
      const Place& taken = read.granules[j].place;
      core_->tier_for(taken.id).cancel_fill(taken.key, version);
    }
    return false;
  }
  return true;
}

void CachedStoreImpl::fetch_granules(const std::shared_ptr<GranuleRead>& read, size_t first,
                                     size_t count) {
  const GranuleRead::Granule& front = read->granules[first];
  const GranuleRead::Granule& back = read->granules[first + count - 1];
  const uint64_t begin = front.place.key.offset;
  const uint64_t end = back.place.key.offset + back.place.key.length;
  if (reserve_granules(*read, first, count)) {
    Result<io::Buffer> taken = core_->take(end - begin);
    if (taken.ok()) {
      const auto buffer = std::make_shared<io::Buffer>(std::move(*taken));
      store::GetOptions options = read->call->options();
      options.if_match = read->call->version()->info.etag;
      options.size = read->call->version()->info.size;
      source_->async_get(read->call->key(), begin, buffer->bytes(), std::move(options),
                         [this, read, first, count, buffer](const Result<store::GetResult>& got) {
                           const Result<void> checked =
                               check_window(got, *read->call->version(), buffer->size());
                           if (checked.ok()) {
                             granules_fetched(read, first, count, *buffer);
                           } else {
                             cancel_granules(*read, first, count);
                           }
                           end_granule_run(read, checked);
                         });
      return;
    }
    cancel_granules(*read, first, count);
  }
  const uint64_t wanted = begin + front.begin;
  const size_t bytes = static_cast<size_t>(back.into.data() + back.into.size() - front.into.data());
  read_from_source(read->call, wanted, {front.into.data(), bytes},
                   [this, read](const Result<void>& outcome) { end_granule_run(read, outcome); });
}

void CachedStoreImpl::cancel_granules(const GranuleRead& read, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    const Place& place = read.granules[i].place;
    core_->tier_for(place.id).cancel_fill(place.key, read.call->version()->id);
  }
}

void CachedStoreImpl::granules_fetched(const std::shared_ptr<GranuleRead>& read, size_t first,
                                       size_t count, const io::Buffer& buffer) {
  core_->counters().source_bytes.add(buffer.size());
  const uint64_t begin = read->granules[first].place.key.offset;
  for (size_t i = first; i < first + count; ++i) {
    const GranuleRead::Granule& granule = read->granules[i];
    const EntryKey& key = granule.place.key;
    const std::span<const std::byte> bytes = buffer.bytes().subspan(key.offset - begin, key.length);
    (void)read->call->copy(granule.into, bytes.subspan(granule.begin, granule.into.size()));
    Tier& tier = core_->tier_for(granule.place.id);
    const EntryId& version = read->call->version()->id;
    Result<io::Buffer> file = core_->take(file_bytes(key));
    if (!file.ok()) {
      tier.cancel_fill(key, version);
      continue;
    }
    std::memcpy(file->data() + header_bytes(key), bytes.data(), bytes.size());
    tier.fill(key, version, std::make_shared<io::Buffer>(std::move(*file)),
              [core = core_.get()](const Result<void>&) { core->memory_freed(); });
  }
}

void CachedStoreImpl::drop_granules(const Version& version, const Place& window,
                                    const Piece& piece) {
  const uint64_t begin = window.key.offset + piece.begin;
  const uint64_t end = begin + piece.into.size();
  for (uint64_t granule = begin / kGranuleBytes; granule * kGranuleBytes < end; ++granule) {
    const Place place = granule_of(version, granule);
    core_->tier_for(place.id).drop(place.key, version.id);
  }
}

}  // namespace penstock::cache
