#include "loader/batch_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace penstock::loader {

namespace {

constexpr uint32_t kIdleSlotsMax = 64;  // So that several workers share a batch.

}  // namespace

BatchWork::BatchWork(const std::vector<Field>& fields, const Layout& layout, BatchOrder order,
                     const Datasets& datasets)
    : fields_(fields),
      layout_(layout),
      order_(std::move(order)),
      datasets_(datasets),
      places_(order_.slots.size()),
      fields_at_(order_.slots.size() * fields.size()) {}

std::string BatchWork::key(uint32_t slot) const {
  const data::SamplePlace& place = places_[slot];
  return place.index != nullptr ? std::string(place.index->key(place.sample)) : std::string();
}

std::string BatchWork::url(uint32_t slot) const {
  const data::SamplePlace& place = places_[slot];
  if (place.index == nullptr && !reads_tokens) return {};
  return datasets_[order_.slots[slot].source]->shards()[place.shard].name;
}

void BatchWork::set_plan(const std::vector<Wanted>& wanted, ReadPlan reads) {
  plan = std::move(reads);
  for (size_t i = 0; i < wanted.size(); ++i) {
    place(wanted[i].slot, wanted[i].field) = {plan.places[i], wanted[i].size};
  }
  add_idle_slots();
  reads_left = std::make_unique<std::atomic<uint32_t>[]>(plan.units.size());
  read_by_worker.assign(plan.units.size(), 0);
  units_left = static_cast<uint32_t>(plan.units.size());
}

// Those that want nothing to be read, for want of a field or because their label is all that is
// asked for, are worked on all the same.
void BatchWork::add_idle_slots() {
  std::vector<bool> planned(size());
  for (const uint32_t slot : plan.slots) planned[slot] = true;
  const auto first_piece = static_cast<uint32_t>(plan.pieces.size());
  const auto first_idle = static_cast<uint32_t>(plan.slots.size());
  for (uint32_t slot = 0; slot < size(); ++slot) {
    const bool found = places_[slot].index != nullptr || reads_tokens;
    if (!planned[slot] && found) plan.slots.push_back(slot);
  }
  const auto end = static_cast<uint32_t>(plan.slots.size());
  for (uint32_t at = first_idle; at < end; at += kIdleSlotsMax) {
    plan.units.push_back(
        {.first_piece = first_piece, .first_slot = at, .slots = std::min(kIdleSlotsMax, end - at)});
  }
  // A batch has a unit, also when none of its samples was found.
  if (plan.units.empty()) plan.units.push_back({.first_piece = first_piece});
}

void BatchWork::set_memory(io::Buffer dense, io::Buffer raw) {
  dense_ = std::move(dense);
  raw_ = std::move(raw);
  std::byte* const base = dense_.data();
  mask_ = reinterpret_cast<uint8_t*>(base + layout_.mask);
  samples_ = reinterpret_cast<uint64_t*>(base + layout_.samples);
  for (uint32_t slot = 0; slot < size(); ++slot) {
    mask_[slot] = order_.slots[slot].padding ? 0 : 1;
    samples_[slot] = order_.slots[slot].sample;
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    const Layout::Place& place = layout_.columns[i];
    Column column;
    column.name = field.name;
    column.kind = field.kind;
    column.ragged = is_ragged(field);
    if (column.ragged) {
      auto* const starts = reinterpret_cast<int64_t*>(base + place.offset);
      auto* const lengths = reinterpret_cast<int64_t*>(base + place.lengths);
      std::fill_n(starts, size(), 0);
      std::fill_n(lengths, size(), 0);
      column.starts = {starts, size()};
      column.lengths = {lengths, size()};
      column.data = raw_.bytes();
      column.shape = {size()};
    } else {
      column.data = {base + place.offset, place.slot_bytes * size()};
      column.shape = {size()};
      if (field.kind == FieldKind::kImage) {
        const decode::ImageSpec& image = field.image;
        column.dtype = image.dtype;
        if (image.layout == decode::Layout::kChw)
          column.shape.insert(column.shape.end(), {image.channels, image.height, image.width});
        else
          column.shape.insert(column.shape.end(), {image.height, image.width, image.channels});
      } else {
        column.dtype = field.dtype;
        column.shape.insert(column.shape.end(), field.shape.begin(), field.shape.end());
      }
    }
    columns_.push_back(std::move(column));
  }
}

std::span<std::byte> BatchWork::dense_slot(size_t field, uint32_t slot) {
  const Layout::Place& place = layout_.columns[field];
  return {dense_.data() + place.offset + place.slot_bytes * slot, place.slot_bytes};
}

void BatchWork::set_ragged(size_t field, uint32_t slot, std::span<const std::byte> value) {
  const Layout::Place& place = layout_.columns[field];
  auto* const starts = reinterpret_cast<int64_t*>(dense_.data() + place.offset);
  auto* const lengths = reinterpret_cast<int64_t*>(dense_.data() + place.lengths);
  starts[slot] = value.empty() ? 0 : value.data() - raw_.data();
  lengths[slot] = static_cast<int64_t>(value.size());
}

void BatchWork::blank(uint32_t slot) {
  mask_[slot] = 0;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (columns_[i].ragged) {
      set_ragged(i, slot, {});
    } else {
      const std::span<std::byte> memory = dense_slot(i, slot);
      std::memset(memory.data(), 0, memory.size());
    }
  }
}

void BatchWork::fail(uint32_t slot, Error error) {
  const std::lock_guard lock(failures_mutex_);
  for (const Failure& known : failures_) {
    if (known.slot == slot) return;
  }
  failures_.push_back({slot, std::move(error)});
}

std::vector<BatchWork::Failure> BatchWork::take_failures() {
  const std::lock_guard lock(failures_mutex_);
  std::sort(failures_.begin(), failures_.end(),
            [](const Failure& a, const Failure& b) { return a.slot < b.slot; });
  return std::move(failures_);
}

void BatchWork::fail_piece(uint32_t piece, Error error) {
  const std::lock_guard lock(failures_mutex_);
  piece_failures_.emplace_back(piece, std::move(error));
  any_piece_failed_ = true;
}

std::optional<Error> BatchWork::read_failure(uint32_t slot) {
  if (!any_piece_failed_) return std::nullopt;
  const std::lock_guard lock(failures_mutex_);
  for (const auto& [failed, error] : piece_failures_) {
    const Piece& piece = plan.pieces[failed];
    for (size_t field = 0; field < fields_.size(); ++field) {
      const FieldPlace& wanted = place(slot, field);
      if (wanted.at >= piece.at && wanted.at < piece.at + std::max<uint64_t>(1, piece.length))
        return error;
    }
  }
  return std::nullopt;
}

std::string BatchWork::describe(uint32_t slot) const {
  const uint64_t number = order_.slots[slot].sample;
  const std::string shard = url(slot);
  if (shard.empty()) return fmt::format("sample {}", number);
  const data::SamplePlace& place = places_[slot];
  const bool loose = datasets_[order_.slots[slot].source]->shards()[place.shard].loose;
  if (loose || place.members.empty())
    return fmt::format("{}: sample '{}' (number {})", shard, key(slot), number);
  return fmt::format("{}: sample '{}' (number {}, at offset {})", shard, key(slot), number,
                     uint64_t{place.members.front().offset});
}

void BatchWork::finish() {
  for (const Failure& one : failures_) blank(one.slot);
  if (!layout_.has_ragged) raw_ = io::Buffer();
}

}  // namespace penstock::loader
