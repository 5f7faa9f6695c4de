#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/log.h"
#include "tune/bench_runner.h"
#include "tune/bench_stream.h"

namespace penstock::tune {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kObjectPrefix = "penstock-bench-";
constexpr uint64_t kLargeObjectBytes = 64 * kMiB;
constexpr size_t kKeysPerRemove = 1000;  // What one request of S3 takes.

// Keeps `slots` asynchronous calls in flight, each completion starting the next. `call` starts one
// and calls its argument, once, with the bytes moved.
class CallStream final : public BenchStream {
 public:
  using Done = std::function<void(Result<uint64_t>)>;
  using Call = std::function<void(size_t slot, uint64_t ticket, Done done)>;
  CallStream(Call call, size_t slots, uint64_t calls_most)
      : call_(std::move(call)), slots_(slots), calls_most_(calls_most) {}

  void start(Deadline end) override {
    deadline_ = end;
    end_.arm(slots_);
    for (size_t slot = 0; slot < slots_; ++slot) next(slot, Clock::now());
  }
  void stop() override { stopped_.store(true, std::memory_order_relaxed); }
  bool wait_until(Deadline time) override { return end_.wait_until(time); }
  const StreamMeter& meter() const override { return meter_; }
  Deadline finished_at() const override { return end_.finished_at(); }
  std::optional<Error> error() const override { return end_.error(); }

 private:
  void next(size_t slot, Deadline now) {
    const bool over = now >= deadline_ || stopped_.load(std::memory_order_relaxed);
    const uint64_t ticket = over ? 0 : ticket_.fetch_add(1, std::memory_order_relaxed);
    if (over || (calls_most_ != 0 && ticket >= calls_most_)) return end_.retire(now);
    call_(slot, ticket, [this, slot, now](Result<uint64_t> moved) {
      const Deadline ended = Clock::now();
      if (moved.ok()) {
        meter_.note(ended - now, *moved);
      } else {
        end_.fail(moved.error());
        stop();
      }
      next(slot, ended);
    });
  }

  const Call call_;
  const size_t slots_;
  const uint64_t calls_most_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<bool> stopped_{false};
  Deadline deadline_;
  StreamMeter meter_;
  StreamEnd end_;
};

// The answer's bytes, or its error, passed on.
template <typename Value>
store::Done<Value> passing(CallStream::Done done, uint64_t bytes) {
  return [done = std::move(done), bytes](Result<Value> answer) {
    done(answer.ok() ? Result<uint64_t>(bytes) : Result<uint64_t>(answer.error()));
  };
}

// The same for reads, which must give all that was put.
store::Done<store::GetResult> passing_read(CallStream::Done done, uint64_t bytes) {
  return [done = std::move(done), bytes](Result<store::GetResult> answer) {
    if (!answer.ok()) return done(answer.error());
    if (answer->bytes == bytes) return done(bytes);
    done(make_error(ErrorCode::kCorrupt, answer->info.key + " is shorter than it was put"));
  };
}

template <typename Options>
Options cancelled_by(const std::stop_token& stop) {
  Options options;
  options.cancel = stop;
  return options;
}

class StoreBench {
 public:
  StoreBench(store::ObjectStore& store, const BenchPlan& plan, const BenchContext& context)
      : store_(store), plan_(plan), context_(context) {
    std::random_device random;
    prefix_ = fmt::format("{}{}-{:08x}/", kObjectPrefix, ::getpid(), random());
  }
  ~StoreBench();
  StoreBench(const StoreBench&) = delete;
  StoreBench& operator=(const StoreBench&) = delete;

  Result<void> prepare();
  Result<void> run(std::vector<CaseResult>& results);
  Result<void> clean_up();

 private:
  Result<CaseResult> run_case(const BenchCase& bench_case);
  Result<void> put_large_object();
  CallStream::Call call_for(const BenchCase& bench_case);
  CallStream::Call remove_call();
  std::span<std::byte> memory_for(const BenchCase& bench_case, size_t slot) const {
    return memory_.bytes().subspan(slot * bench_case.block_bytes, bench_case.block_bytes);
  }
  std::string key(uint64_t object_bytes, uint64_t index) const {
    return fmt::format("{}{}/{:08}", prefix_, object_bytes, index);
  }
  std::string large_key() const { return prefix_ + "large"; }
  // Objects of this size that a case may use, and that there are.
  uint64_t count_for(const BenchCase& bench_case) const {
    return std::max<uint64_t>(bench_case.depth, bench_case.span_bytes / bench_case.block_bytes);
  }
  uint64_t& made(uint64_t object_bytes) { return made_[object_bytes]; }

  store::ObjectStore& store_;
  const BenchPlan& plan_;
  BenchContext context_;
  std::string prefix_;
  io::Buffer memory_;
  std::map<uint64_t, uint64_t> made_;  // How many objects there are, by size.
  bool large_made_ = false;
  bool dirty_ = false;  // There may be objects to remove.
};

StoreBench::~StoreBench() {
  const Result<void> gone = clean_up();
  if (!gone.ok()) {
    log_error("could not remove the objects of the bench",
              {{"prefix", prefix_}, {"error", gone.error().to_string()}});
  }
}

Result<void> StoreBench::prepare() {
  if (!store_.capabilities().writable) {
    return make_error(ErrorCode::kUnsupported, store_.description() + " cannot be written");
  }
  uint64_t memory_bytes = 8 * kMiB;
  for (const BenchCase& bench_case : plan_.cases) {
    memory_bytes = std::max(memory_bytes, bench_case.block_bytes * bench_case.depth);
  }
  const auto provider = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = memory_bytes}));
  memory_ = PENSTOCK_TRY(provider->take(memory_bytes));
  fill_incompressible(memory_.bytes(), 1);
  return {};
}

Result<void> StoreBench::run(std::vector<CaseResult>& results) {
  context_.case_count = plan_.cases.size();
  for (const BenchCase& bench_case : plan_.cases) {
    ++context_.case_number;
    PENSTOCK_TRY(check_stop(context_));
    results.push_back(PENSTOCK_TRY(run_case(bench_case)));
  }
  return {};
}

Result<CaseResult> StoreBench::run_case(const BenchCase& bench_case) {
  uint64_t calls_most = 0;
  if (bench_case.op == BenchOp::kPut) dirty_ = true;
  if (bench_case.op == BenchOp::kGetRange) PENSTOCK_TRY(put_large_object());
  if (bench_case.op == BenchOp::kRemove) {
    calls_most = (made(bench_case.block_bytes) + kKeysPerRemove - 1) / kKeysPerRemove;
  }
  std::vector<std::unique_ptr<BenchStream>> streams;
  streams.push_back(
      std::make_unique<CallStream>(call_for(bench_case), bench_case.depth, calls_most));
  CaseResult result = PENSTOCK_TRY(measure_case(bench_case, streams, {}, context_));
  if (bench_case.op == BenchOp::kPut) {
    uint64_t& count = made(bench_case.block_bytes);
    count = std::max(count, std::min(result.ops, count_for(bench_case)));
  }
  return result;
}

// As an upload in parts, which is how large objects are made.
Result<void> StoreBench::put_large_object() {
  if (large_made_) return {};
  dirty_ = true;
  auto upload = PENSTOCK_TRY(store_.start_upload(large_key(), {}));
  const std::span<std::byte> piece = memory_.bytes().first(8 * kMiB);
  for (uint64_t offset = 0; offset < kLargeObjectBytes; offset += piece.size()) {
    PENSTOCK_TRY(check_stop(context_));
    stamp_block(piece, offset);
    PENSTOCK_TRY(upload->write(piece));
  }
  PENSTOCK_TRY(upload->finish());
  large_made_ = true;
  return {};
}

CallStream::Call StoreBench::call_for(const BenchCase& bench_case) {
  const uint64_t object_bytes = bench_case.block_bytes;
  const uint64_t count = std::max<uint64_t>(1, made(object_bytes));
  switch (bench_case.op) {
    case BenchOp::kPut:
      return [=, this, objects = count_for(bench_case)](size_t slot, uint64_t ticket, auto done) {
        const std::span<std::byte> bytes = memory_for(bench_case, slot);
        stamp_block(bytes, ticket);
        store_.async_put(key(object_bytes, ticket % objects), bytes,
                         cancelled_by<store::PutOptions>(context_.stop),
                         passing<store::ObjectInfo>(std::move(done), object_bytes));
      };
    case BenchOp::kGet:
      return [=, this](size_t slot, uint64_t ticket, auto done) {
        store_.async_get(key(object_bytes, ticket % count), 0, memory_for(bench_case, slot),
                         cancelled_by<store::GetOptions>(context_.stop),
                         passing_read(std::move(done), object_bytes));
      };
    case BenchOp::kGetRange:
      return [=, this](size_t slot, uint64_t ticket, auto done) {
        const uint64_t offset = ticket * object_bytes % kLargeObjectBytes;
        store_.async_get(large_key(), offset, memory_for(bench_case, slot),
                         cancelled_by<store::GetOptions>(context_.stop),
                         passing_read(std::move(done), object_bytes));
      };
    case BenchOp::kHead:
      return [=, this](size_t, uint64_t ticket, auto done) {
        store_.async_head(key(object_bytes, ticket % count),
                          cancelled_by<store::CallOptions>(context_.stop),
                          passing<store::ObjectInfo>(std::move(done), 0));
      };
    case BenchOp::kList:
      return [this](size_t, uint64_t, auto done) {
        auto options = cancelled_by<store::ListOptions>(context_.stop);
        options.prefix = prefix_;
        store_.async_list(options, passing<store::ListPage>(std::move(done), 0));
      };
    default:
      return remove_call();
  }
}

CallStream::Call StoreBench::remove_call() {
  constexpr uint64_t kObjectBytes = 4 * kKiB;
  return [this, count = made(kObjectBytes)](size_t, uint64_t ticket, auto done) {
    std::vector<std::string> keys;
    const uint64_t end = std::min(count, (ticket + 1) * kKeysPerRemove);
    for (uint64_t i = ticket * kKeysPerRemove; i < end; ++i) keys.push_back(key(kObjectBytes, i));
    store_.async_remove(std::move(keys), cancelled_by<store::CallOptions>(context_.stop),
                        passing<std::vector<store::RemoveFailure>>(std::move(done), 0));
  };
}

// Never with the context's token: it runs exactly when that was stopped.
Result<void> StoreBench::clean_up() {
  if (!dirty_) return {};
  while (true) {
    store::ListOptions options;
    options.prefix = prefix_;
    const store::ListPage page = PENSTOCK_TRY(store_.list(options));
    if (page.objects.empty()) break;
    std::vector<std::string> keys;
    for (const store::ObjectInfo& object : page.objects) keys.push_back(object.key);
    const auto failures = PENSTOCK_TRY(store_.remove(std::move(keys)));
    if (!failures.empty()) return failures.front().error.with_context(failures.front().key);
  }
  dirty_ = false;
  return {};
}

}  // namespace

Result<void> run_store_bench(store::ObjectStore& store, const BenchPlan& plan,
                             const BenchContext& context, std::vector<CaseResult>& results) {
  StoreBench bench(store, plan, context);
  PENSTOCK_TRY(bench.prepare());
  PENSTOCK_TRY(bench.run(results));
  return bench.clean_up();
}

Result<std::vector<std::string>> find_store_leftovers(store::ObjectStore& store) {
  store::ListOptions options;
  options.prefix = kObjectPrefix;
  options.by_folder = true;
  const store::ListPage page = PENSTOCK_TRY(store.list(options));
  return page.folders;
}

}  // namespace penstock::tune
