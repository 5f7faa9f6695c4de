#include <fmt/core.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "sync/copier.h"
#include "sync/place.h"
#include "sync/remover.h"
#include "sync/walker.h"

namespace penstock::sync {

namespace {

constexpr uint32_t kJobsMax = 1024;
constexpr uint64_t kMemoryMin = 16 * kMiB;
constexpr uint64_t kPartMin = 4 * kKiB;
constexpr uint64_t kRangesInMemory = 8;  // At the least: ranges are made smaller for that.
constexpr auto kProgressEvery = std::chrono::milliseconds(200);

Result<void> validate(const Options& options) {
  const auto refuse = [](std::string text) { return make_error(ErrorCode::kInvalid, text); };
  if (options.jobs < 1 || options.jobs > kJobsMax) {
    return refuse(fmt::format("jobs are 1 to {}, not {}", kJobsMax, options.jobs));
  }
  if (options.memory_bytes < kMemoryMin) {
    return refuse(fmt::format("at least {} of memory are needed, not {}", format_size(kMemoryMin),
                              format_size(options.memory_bytes)));
  }
  if (options.part_bytes < kPartMin) {
    return refuse(fmt::format("a part has at least {}, not {}", format_size(kPartMin),
                              format_size(options.part_bytes)));
  }
  for (const Filter& filter : options.filters) PENSTOCK_TRY(check_filter(filter));
  return {};
}

Result<void> check_kinds(const Place& from, const Place& to, const Options& options) {
  if (from.store == nullptr) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} is missing", from.description()));
  }
  if (from.only_key.empty() && !to.only_key.empty()) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is a file, and cannot take what is in {}", to.description(),
                                  from.description()));
  }
  if (!from.only_key.empty() && options.delete_extra) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is one object: deleting all others from the target cannot "
                                  "be what was meant",
                                  from.description()));
  }
  return {};
}

// Tells the progress now and then, on a thread of its own.
class Teller {
 public:
  explicit Teller(const Context& context) : context_(context) {
    if (!context.options.on_progress) return;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  // Once more, when all is done.
  ~Teller() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    context_.options.on_progress(context_.tally.progress());
  }

 private:
  void run(const std::stop_token& stop) {
    set_thread_name("sync-progress");
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!never.wait_for(lock, stop, kProgressEvery, [&] { return stop.stop_requested(); })) {
      context_.options.on_progress(context_.tally.progress());
    }
  }

  const Context& context_;
  std::jthread thread_;
};

TreeTarget::Settings tree_settings(const Place& from, const Options& options) {
  TreeTarget::Settings settings;
  settings.on_directory = options.on_directory;
  if (from.file_system == nullptr || !from.only_key.empty()) return settings;
  settings.mode_of_folder = [&from](const std::string& folder) -> std::optional<uint32_t> {
    const Result<io::FileInfo> info = from.file_system->stat_link(from.directory + "/" + folder);
    if (!info.ok()) return std::nullopt;  // It is gone: then the usual one will do.
    return info->mode;
  };
  return settings;
}

Result<void> prepare_memory(Context& context) {
  const Options& options = context.options;
  // Uploads of large objects keep copies of their parts.
  const uint64_t buffers = context.to_tree() ? options.memory_bytes : options.memory_bytes / 2;
  context.upload_bytes_max = options.memory_bytes - buffers;
  context.buffers = PENSTOCK_TRY(io::BufferProvider::create({.budget_bytes = buffers}));
  context.range_bytes = std::min(options.part_bytes, buffers / kRangesInMemory);
  if (options.bytes_per_second > 0) {
    // Little at a time, so that the limit holds over short times too.
    context.range_bytes =
        std::min(context.range_bytes, std::max<uint64_t>(options.bytes_per_second / 4, 64 * kKiB));
  }
  return {};
}

Result<void> prepare_target(Context& context) {
  const Options& options = context.options;
  Place& to = context.to;
  if (!context.to_tree()) {
    // What is wrong with the place as a whole shows here, before any work.
    auto list = context.call<store::ListOptions>();
    list.limit = 1;
    PENSTOCK_TRY(to.store->list(list));
    return {};
  }
  context.tree = std::make_unique<TreeTarget>(*to.file_system, to.directory,
                                              tree_settings(context.from, options));
  if (options.dry_run) return {};
  PENSTOCK_TRY(context.tree->prepare());
  if (to.missing) {
    to.store = PENSTOCK_TRY(store::open_tree_store(*to.file_system, to.directory));
    to.missing = false;
  }
  context.publisher = std::make_unique<Publisher>(*to.file_system, to.directory, options.stop);
  return {};
}

Leftovers copy_all(Context& context) {
  Copier copier(context);
  Walker walker(context, copier);
  if (context.from.only_key.empty()) {
    walker.run();
  } else {
    const std::string& key = context.from.only_key;
    walker.visit_one(key, context.to.only_key.empty() ? key : context.to.only_key);
  }
  context.tally.listing_done();
  copier.finish();
  return walker.take_leftovers();
}

void copy_blocked(Context& context, const std::vector<std::string>& blocked) {
  Copier copier(context);
  Walker walker(context, copier);
  walker.run_blocked(blocked);
  copier.finish();
}

// What is in the way of something goes just before that is copied; all else last, and only when
// everything was copied.
void remove_and_replace(Context& context, const Leftovers& leftovers) {
  Remover remover(context);
  if (!context.options.dry_run && !leftovers.blocked.empty()) {
    remover.clear_way(leftovers.blocked);
    copy_blocked(context, leftovers.blocked);
  }
  if (context.tally.clean() && !context.stopped()) remover.run(leftovers);
}

Result<void> finish_target(Context& context) {
  if (context.options.dry_run) return {};
  if (context.tree) return context.tree->finish(/*durable=*/!context.stopped());
  if (context.stopped()) return {};
  return context.to.store->flush(context.call<store::CallOptions>());
}

}  // namespace

Result<Report> run(Place& from, Place& to, const Options& options) {
  PENSTOCK_TRY(validate(options));
  PENSTOCK_TRY(check_kinds(from, to, options));
  PENSTOCK_TRY(check_apart(from, to));
  const auto rate = static_cast<double>(options.bytes_per_second);
  Context context{.from = from,
                  .to = to,
                  .options = options,
                  .filters = FilterList(options.filters),
                  .tally = Tally(options),
                  .limiter = RateLimiter(rate, rate / 4),
                  .buffers = nullptr,
                  .tree = nullptr,
                  .publisher = nullptr};
  PENSTOCK_TRY(prepare_memory(context));
  PENSTOCK_TRY(prepare_target(context));
  {
    const Teller teller(context);
    const Leftovers leftovers = copy_all(context);
    const bool deletes = options.delete_extra && context.tally.clean() && !context.stopped();
    if (deletes) remove_and_replace(context, leftovers);
    if (const Result<void> finished = finish_target(context); !finished.ok()) {
      context.tally.failed("", finished.error());
    }
  }
  return context.tally.report();
}

}  // namespace penstock::sync
