#include "loader/pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "loader/pipeline_shared.h"
#include "loader/token_dataset.h"

namespace penstock::loader {

namespace {

constexpr size_t kReaders = 8;
constexpr size_t kReadersQueue = 1024;
constexpr uint64_t kDirectAlignment = 4096;

// Batches differ a little in size; so that memory is used again, buffers come in few sizes, up to an
// eighth larger than asked for.
uint64_t rounded(uint64_t bytes) {
  if (bytes <= kMiB) return std::max<uint64_t>(bytes, 1);
  const uint64_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

// By the fields of a shard's index, for each of ours: 0 when it is another, else how much it is
// preferred.
struct Pipeline::FieldTable {
  std::vector<std::vector<uint8_t>> preference;

  FieldTable(const std::vector<Field>& fields, const std::vector<std::string>& names,
             bool records) {
    for (const Field& field : fields) {
      auto& row = preference.emplace_back(names.size());
      for (size_t i = 0; i < names.size(); ++i) {
        if (records) {
          row[i] = 1;  // Features are looked for inside of the record.
          continue;
        }
        const auto found = std::find(field.from.begin(), field.from.end(), names[i]);
        const auto place = static_cast<size_t>(found - field.from.begin());
        row[i] = found == field.from.end()
                     ? uint8_t{0}
                     : static_cast<uint8_t>(255 - std::min<size_t>(place, 254));
      }
    }
  }
};

Result<std::unique_ptr<Pipeline>> Pipeline::create(PipelineOptions options,
                                                   BatchWork::Datasets datasets) {
  PENSTOCK_TRY(check_fields(options.fields));
  const Layout layout(options.fields, options.batch_size);
  if (layout.bytes * 2 > options.memory_bytes) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("memory of {} is too little: a batch has {}, and one is made while "
                    "another is used",
                    format_size(options.memory_bytes), format_size(layout.bytes)));
  }
  auto buffers = PENSTOCK_TRY(io::BufferProvider::create(
      {.budget_bytes = options.memory_bytes, .registrar = options.registrar, .pin = options.pin}));
  return std::unique_ptr<Pipeline>(
      new Pipeline(std::move(options), std::move(datasets), std::move(buffers)));
}

Pipeline::Pipeline(PipelineOptions options, BatchWork::Datasets datasets,
                   std::shared_ptr<io::BufferProvider> buffers)
    : options_(std::make_shared<const PipelineOptions>(std::move(options))),
      layout_(std::make_shared<const Layout>(options_->fields, options_->batch_size)),
      datasets_(std::move(datasets)),
      buffers_(std::move(buffers)),
      shared_(std::make_shared<Shared>()) {
  local_tokens_ = std::all_of(datasets_.begin(), datasets_.end(), [](const auto& dataset) {
    return dataset->local() && dynamic_cast<const TokenDataset*>(dataset.get()) != nullptr;
  });
  bool may_block = false;
  for (const auto& dataset : datasets_) {
    tables_.emplace_back(dataset->shards().size());
    const bool aligned = dataset->local() && dataset->mode() == io::CacheMode::kDirect;
    if (aligned) {
      rules_.alignment = kDirectAlignment;
      rules_.piece_max = std::max(rules_.piece_max, kMiB);
    }
    if (!dataset->local()) {
      rules_.gap_max = 256 * kKiB;
      rules_.piece_max = 4 * kMiB;
    }
    for (const data::Shard& shard : dataset->shards()) may_block |= shard.loose;
    streams_.push_back(nullptr);
    if (!dataset->sequential_only()) continue;
    may_block = true;
    streams_.back() = std::make_unique<StreamShards>(*dataset, options_->stream_bytes);
  }
  if (may_block) readers_ = std::make_unique<ThreadPool>("load-file", kReaders, kReadersQueue);
  for (uint32_t i = 0; i < options_->threads; ++i) {
    workers_.emplace_back([this, i] {
      set_thread_name(fmt::format("load-{}", i));
      run_worker();
    });
  }
}

Pipeline::~Pipeline() {
  shared_->stop();
  for (std::thread& worker : workers_) worker.join();
  readers_.reset();
  shared_->wait_for_reads();
}

const Pipeline::FieldTable& Pipeline::table_of(uint32_t source, uint32_t shard,
                                               const data::ShardIndex& index) {
  std::unique_ptr<FieldTable>& table = tables_[source][shard];
  if (table == nullptr) {
    const bool records = datasets_[source]->format() == data::Format::kTfRecord;
    table = std::make_unique<FieldTable>(options_->fields, index.fields(), records);
  }
  return *table;
}

void Pipeline::find_slot(BatchWork& batch, uint32_t slot, std::vector<Wanted>& wanted) {
  const data::SamplePlace& place = batch.sample(slot);
  const uint32_t source = batch.source(slot);
  const FieldTable& table = table_of(source, place.shard, *place.index);
  const bool records = datasets_[source]->format() == data::Format::kTfRecord;
  const bool loose = datasets_[source]->shards()[place.shard].loose;
  const size_t fields = records ? 1 : options_->fields.size();
  for (size_t field = 0; field < fields; ++field) {
    uint8_t best = 0;
    size_t chosen = 0;
    for (size_t i = 0; i < place.members.size(); ++i) {
      const uint8_t preference = table.preference[field][place.members[i].field];
      if (preference <= best) continue;
      best = preference;
      chosen = i;
    }
    if (best == 0) continue;
    const data::Member& member = place.members[chosen];
    Wanted one;
    one.source = source;
    one.shard = place.shard;
    one.offset = member.offset;
    one.size = member.size;
    one.slot = slot;
    one.field = static_cast<uint32_t>(field);
    // Two slots may want the same file, and then read it twice.
    if (loose) one.object = slot * 256 + static_cast<uint32_t>(chosen) + 1;
    wanted.push_back(one);
  }
}

std::vector<Wanted> Pipeline::find_wanted(BatchWork& batch) {
  std::vector<Wanted> wanted;
  if (batch.reads_tokens) return wanted;  // By their numbers.
  wanted.reserve(batch.size() * options_->fields.size());
  for (uint32_t slot = 0; slot < batch.size(); ++slot) {
    Result<data::SamplePlace> place = batch.dataset(slot).place(batch.order().slots[slot].sample);
    if (!place.ok()) {
      batch.fail(slot, place.error());
      continue;
    }
    batch.sample(slot) = std::move(*place);
    find_slot(batch, slot, wanted);
  }
  return wanted;
}

Result<io::Buffer> Pipeline::take(uint64_t bytes, const std::stop_token& stop) {
  Result<io::Buffer> buffer = buffers_->try_take(rounded(bytes));
  if (!buffer.ok() && buffer.error().code == ErrorCode::kBusy) {
    const Clock::time_point begin = Clock::now();
    buffer = buffers_->take(rounded(bytes), kNoDeadline, stop);
    stats()->memory_wait.add(Clock::now() - begin);
  }
  if (buffer.ok() || buffer.error().code != ErrorCode::kInvalid) return buffer;
  return make_error(ErrorCode::kNoMemory,
                    fmt::format("a batch needs {} at once, and memory is {}: give it more, or make "
                                "batch_size smaller",
                                format_size(bytes), format_size(options_->memory_bytes)));
}

Result<WorkRef> Pipeline::start(BatchOrder order, std::stop_token stop) {
  const Clock::time_point begin = Clock::now();
  const auto batch =
      std::make_shared<BatchWork>(options_->fields, *layout_, std::move(order), datasets_);
  batch->keep = std::shared_ptr<const void>(
      std::make_shared<
          std::pair<std::shared_ptr<const PipelineOptions>, std::shared_ptr<const Layout>>>(
          options_, layout_));
  // Reads that may have to wait for the drive are begun ahead instead.
  batch->reads_tokens = local_tokens_ && !shared_->advise();
  const std::vector<Wanted> wanted = find_wanted(*batch);
  batch->set_plan(wanted, plan_reads(wanted, rules_, [this](uint32_t source, uint32_t shard) {
                    return datasets_[source]->shards()[shard].size;
                  }));
  stats()->plan_busy.add(Clock::now() - begin);

  io::Buffer dense = PENSTOCK_TRY(take(layout_->bytes, stop));
  io::Buffer raw = PENSTOCK_TRY(take(batch->plan.raw_bytes, stop));
  batch->set_memory(std::move(dense), std::move(raw));
  const Clock::time_point ready = Clock::now();
  begin_reads(batch);
  stats()->plan_busy.add(Clock::now() - ready);
  return batch;
}

Result<void> Pipeline::wait(BatchWork& batch, Deadline deadline) {
  PENSTOCK_TRY(shared_->wait_for(batch, deadline));
  return tell_failures(batch);
}

Result<void> Pipeline::tell_failures(BatchWork& batch) {
  const std::vector<BatchWork::Failure> failures = batch.take_failures();
  if (failures.empty()) return {};
  const BatchWork::Failure& first = failures.front();
  if (options_->on_error == OnError::kRaise)
    return first.error.as_outcome().with_context(batch.describe(first.slot));
  const std::shared_ptr<Stats> now = stats();
  for (const BatchWork::Failure& one : failures)
    now->list({batch.url(one.slot), batch.key(one.slot), one.error.to_string()});
  return {};
}

std::shared_ptr<Stats> Pipeline::stats() const {
  return shared_->stats();
}

void Pipeline::reset_stats() {
  const std::lock_guard lock(shared_->mutex);
  shared_->current = std::make_shared<Stats>();
}

}  // namespace penstock::loader
