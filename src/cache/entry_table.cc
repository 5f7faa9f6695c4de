#include "cache/entry_table.h"

namespace penstock::cache {

uint64_t EntryTable::place_of(const EntryId& id) const {
  if (tags_.empty()) return 0;
  const uint64_t hash = mix(id);
  const uint8_t tag = tag_of(hash);
  for (uint64_t place = home_of(hash); tags_[place] != 0; place = next(place)) {
    if (tags_[place] == tag && at(indices_[place]).id == id) return place;
  }
  return tags_.size();
}

const Entry* EntryTable::find(const EntryId& id) const {
  const uint64_t place = place_of(id);
  return place == tags_.size() ? nullptr : &at(indices_[place]);
}

Entry* EntryTable::find(const EntryId& id) {
  const uint64_t place = place_of(id);
  return place == tags_.size() ? nullptr : &at(indices_[place]);
}

void EntryTable::put(uint64_t hash, uint64_t index) {
  uint64_t place = home_of(hash);
  while (tags_[place] != 0) place = next(place);
  tags_[place] = tag_of(hash);
  indices_[place] = static_cast<uint32_t>(index);
}

void EntryTable::rebuild(uint64_t places) {
  // The old ones go first: everything is in the entries.
  std::vector<uint8_t>().swap(tags_);
  std::vector<uint32_t>().swap(indices_);
  tags_.resize(places);
  indices_.resize(places);
  for (uint64_t i = 0; i < size_; ++i) put(mix(at(i).id), i);
}

void EntryTable::reserve(uint64_t entries) {
  if (entries * 8 > tags_.size() * 7) rebuild(entries / 4 * 5 + 64);
}

Entry* EntryTable::insert(const EntryId& id) {
  if ((size_ + 1) * 8 > tags_.size() * 7) rebuild(std::max<uint64_t>(64, tags_.size() / 2 * 3));
  const uint64_t hash = mix(id);
  uint64_t place = home_of(hash);
  for (; tags_[place] != 0; place = next(place)) {
    if (tags_[place] == tag_of(hash) && at(indices_[place]).id == id) return nullptr;
  }
  if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique<Entry[]>(kChunk));
  tags_[place] = tag_of(hash);
  indices_[place] = static_cast<uint32_t>(size_);
  Entry& entry = at(size_++);
  entry = Entry{.id = id};
  return &entry;
}

void EntryTable::erase(Entry& entry) {
  uint64_t hole = place_of(entry.id);
  Entry& last = at(size_ - 1);
  if (&last != &entry) {
    indices_[place_of(last.id)] = indices_[hole];
    entry = last;
  }
  // Moves those that follow into the hole where it is on their way, so that no marks are needed.
  for (uint64_t place = next(hole); tags_[place] != 0; place = next(place)) {
    const uint64_t home = home_of(mix(at(indices_[place]).id));
    const bool stays = hole <= place ? hole < home && home <= place : hole < home || home <= place;
    if (stays) continue;
    tags_[hole] = tags_[place];
    indices_[hole] = indices_[place];
    hole = place;
  }
  tags_[hole] = 0;
  --size_;
  if (size_ + 2 * kChunk <= chunks_.size() * kChunk) chunks_.pop_back();
  if (tags_.size() > 64 && size_ * 4 < tags_.size()) rebuild(tags_.size() / 2);
}

uint64_t EntryTable::memory_bytes() const {
  return chunks_.size() * kChunk * sizeof(Entry) + chunks_.capacity() * sizeof(chunks_[0]) +
         tags_.capacity() + indices_.capacity() * sizeof(indices_[0]);
}

}  // namespace penstock::cache
