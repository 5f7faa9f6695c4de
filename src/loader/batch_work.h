// A batch, from the order for it to the memory that the caller gets.
// Threads: made by one thread; then each slot is worked on by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "loader/layout.h"
#include "loader/read_plan.h"
#include "penstock/buffer.h"
#include "penstock/loader.h"

namespace penstock::loader {

// What a batch is to have.
struct BatchOrder {
  uint64_t epoch = 0;
  uint64_t step = 0;
  struct Slot {
    uint32_t source = 0;
    bool padding = false;
    uint64_t sample = 0;
    uint64_t random = 0;  // For what is decided by chance about it.
  };
  std::vector<Slot> slots;
};

class BatchWork final : public Batch {
 public:
  // A field of a slot: where its bytes are among the raw ones.
  struct FieldPlace {
    static constexpr uint64_t kMissing = UINT64_MAX;
    uint64_t at = kMissing;
    uint64_t size = 0;
  };
  using Datasets = std::vector<std::shared_ptr<data::Dataset>>;

  BatchWork(const std::vector<Field>& fields, const Layout& layout, BatchOrder order,
            const Datasets& datasets);

  // Batch
  uint64_t epoch() const override { return order_.epoch; }
  uint64_t step() const override { return order_.step; }
  std::span<const Column> columns() const override { return columns_; }
  uint32_t size() const override { return static_cast<uint32_t>(order_.slots.size()); }
  std::span<const uint8_t> mask() const override { return {mask_, size()}; }
  std::span<const uint64_t> samples() const override { return {samples_, size()}; }
  uint32_t source(uint32_t slot) const override { return order_.slots[slot].source; }
  std::string key(uint32_t slot) const override;
  std::string url(uint32_t slot) const override;
  bool pinned() const override { return dense_.pinned(); }

  const BatchOrder& order() const { return order_; }
  const Layout& layout() const { return layout_; }
  const std::vector<Field>& fields() const { return fields_; }

  // Once each, in this order, before any work on slots. `places` of the plan are those of `wanted`.
  void set_plan(const std::vector<Wanted>& wanted, ReadPlan reads);
  void set_memory(io::Buffer dense, io::Buffer raw);

  std::span<std::byte> dense_slot(size_t field, uint32_t slot);
  // `value` lies inside of raw(), or is empty.
  void set_ragged(size_t field, uint32_t slot, std::span<const std::byte> value);
  std::span<std::byte> raw() const { return raw_.bytes(); }
  io::MemorySlice raw_slice(uint64_t at, uint64_t length) const { return raw_.slice(at, length); }
  FieldPlace& place(uint32_t slot, size_t field) {
    return fields_at_[slot * fields_.size() + field];
  }
  data::SamplePlace& sample(uint32_t slot) { return places_[slot]; }
  const data::SamplePlace& sample(uint32_t slot) const { return places_[slot]; }
  data::Dataset& dataset(uint32_t slot) const { return *datasets_[order_.slots[slot].source]; }

  // What went wrong with a slot; the first one is kept for each. It becomes blank when the batch is
  // finished.
  void fail(uint32_t slot, Error error);
  // For messages: "train-000001.tar: sample 'n01440764_18' (number 17, at offset 1536)".
  std::string describe(uint32_t slot) const;
  struct Failure {
    uint32_t slot = 0;
    Error error;
  };
  std::vector<Failure> take_failures();  // By slot.

  // The slots that want bytes of the piece fail with it.
  void fail_piece(uint32_t piece, Error error);
  std::optional<Error> read_failure(uint32_t slot);

  // After the last unit: raw bytes that nobody looks at any more are given back.
  void finish();

  ReadPlan plan;
  std::unique_ptr<std::atomic<uint32_t>[]> reads_left;  // By unit.
  std::vector<uint8_t> read_by_worker;                  // By unit.
  bool reads_tokens = false;  // No reads are planned: workers read each sample as they come to it.
  std::atomic<uint32_t> units_left = 0;
  std::atomic<bool> complete = false;  // After finish().

 private:
  void add_idle_slots();
  void blank(uint32_t slot);  // Becomes zeros, and its mask 0.

  const std::vector<Field>& fields_;  // The pipeline's, which `keep_` holds.
  const Layout& layout_;
  const BatchOrder order_;
  const Datasets datasets_;
  std::vector<data::SamplePlace> places_;
  std::vector<FieldPlace> fields_at_;
  std::vector<Column> columns_;
  io::Buffer dense_;
  io::Buffer raw_;
  uint8_t* mask_ = nullptr;
  uint64_t* samples_ = nullptr;
  std::mutex failures_mutex_;
  std::vector<Failure> failures_;
  std::vector<std::pair<uint32_t, Error>> piece_failures_;
  std::atomic<bool> any_piece_failed_ = false;

 public:
  std::shared_ptr<const void> keep;  // What `fields` and `layout` belong to.
};

}  // namespace penstock::loader
