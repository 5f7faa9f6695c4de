#include "sync/copier.h"

#include <fmt/core.h>

#include <algorithm>

#include "sync/same_bytes.h"

namespace penstock::sync {

namespace {

constexpr size_t kQueued = 32768;  // So far ahead may listings be, and know what there is to do.
constexpr size_t kWriters = 16;    // Blocked in the kernel most of the time.
constexpr size_t kCheckers = 8;
constexpr size_t kStreams = 16;
constexpr uint64_t kPartsPerUpload = 4;  // What an upload to S3 holds at once.
constexpr uint32_t kAttempts = 4;        // When the source changes while it is copied.
constexpr const char* kKeepsChanging =
    "it changed while it was copied, {} times in a row: copy it once nobody writes to it any more";

}  // namespace

Copier::Copier(Context& context)
    : context_(context), queue_(kQueued, context.options.jobs, context.options.stop) {
  const size_t jobs = context.options.jobs;
  // Their queues hold what all slots can bring, so that no completion ever waits.
  if (context.publisher) {
    writers_ = std::make_unique<ThreadPool>("sync-write", std::min(jobs, kWriters), jobs + 2);
  }
  if (context.options.checksum) {
    checkers_ = std::make_unique<ThreadPool>("sync-check", std::min(jobs, kCheckers), jobs + 1);
  }
  if (!context.to_tree() && !context.options.dry_run) {
    const uint64_t fit = context.upload_bytes_max / (kPartsPerUpload * context.options.part_bytes);
    streams_ = std::make_unique<ThreadPool>(
        "sync-upload", std::clamp<uint64_t>(fit, 1, std::min(jobs, kStreams)), 1);
  }
  if (!context.to_tree()) {
    within_s3_ = store::copies_within_s3(*context.from.store, *context.to.store);
  }
  thread_ = std::thread([this] {
    set_thread_name("sync-copy");
    run();
  });
}

Copier::~Copier() {
  finish();
}

void Copier::finish() {
  if (!thread_.joinable()) return;
  queue_.close();
  if (context_.publisher) context_.publisher->hurry();
  thread_.join();
  for (ThreadPool* pool : {writers_.get(), checkers_.get(), streams_.get()}) {
    if (pool != nullptr) pool->stop();
  }
}

void Copier::run() {
  while (std::optional<CopyItem> item = queue_.pop()) start(std::move(*item));
}

void Copier::start(CopyItem item) {
  if (item.step == CopyItem::Step::kAskKeptTime) return ask_kept_time(std::move(item));
  if (item.step == CopyItem::Step::kReadBytes) return read_bytes(std::move(item));
  announce(item);
  if (context_.options.dry_run) {
    queue_.release_slot();
    return queue_.close_item();
  }
  if (item.leads_to) return start_link(std::move(item));
  if (within_s3_) return start_copy_within_s3(std::move(item));
  if (item.source.size <= whole_bytes()) return start_small(std::move(item));
  if (!item.info) return ask_info(std::move(item));
  if (context_.tree) return start_large(std::move(item));
  start_stream(std::move(item));
}

// An upload in parts takes two requests more, and S3 has to join them: worth it for large ones only.
uint64_t Copier::whole_bytes() const {
  return (context_.to_tree() ? 2 : 4) * context_.range_bytes;
}

void Copier::announce(CopyItem& item) {
  if (std::exchange(item.announced, true)) return;
  context_.tally.to_copy(item.source.size);
  context_.tally.act(item.leads_to ? Action::kLink : Action::kCopy, item.key, item.source.size,
                     item.why);
}

void Copier::decided(CopyItem item, const Decision& decision) {
  queue_.release_slot();
  if (decision.verdict == Verdict::kSame) {
    context_.tally.same();
    return queue_.close_item();
  }
  item.why = decision.why;
  item.step = CopyItem::Step::kCopy;
  queue_.push_again(std::move(item));
}

Result<void> Copier::keep_attributes(const CopyItem& item) {
  if (!context_.from_tree() || !context_.to_tree() || !item.mode || !item.there) return {};
  const Decision times =
      compare(item.source, *item.there, {true, true, false, context_.tree->time_step_ns()});
  const bool same_time = times.verdict == Verdict::kSame;
  if (same_time && item.mode == item.mode_there) return {};
  context_.tally.act(Action::kAttributes, item.key, 0, same_time ? "mode" : "time");
  if (context_.options.dry_run) return {};
  return context_.tree->set_attributes(item.to, item.mode, item.source.mtime_ns);
}

void Copier::ask_kept_time(CopyItem item) {
  store::ObjectStore& store = context_.to_tree() ? *context_.from.store : *context_.to.store;
  const std::string key = context_.to_tree() ? item.key : item.to;
  store.async_head(key, context_.call<store::CallOptions>(),
                   [this, item = std::move(item)](const Result<store::ObjectInfo>& info) {
                     if (!info.ok()) {
                       queue_.release_slot();
                       return finished(item, info.error());
                     }
                     decided(item, decide_by_kept_time(item.source, *item.there, context_.rules(),
                                                       info->kept_mtime_ns));
                   });
}

void Copier::read_bytes(CopyItem item) {
  checkers_->submit([this, item = std::move(item)] {
    const Result<bool> same = same_bytes(context_, item);
    Result<void> kept;
    if (same.ok() && *same) kept = keep_attributes(item);
    if (!same.ok() || !kept.ok()) {
      queue_.release_slot();
      return finished(item, same.ok() ? kept.error() : same.error());
    }
    decided(item, *same ? Decision{Verdict::kSame} : Decision{Verdict::kDiffers, "bytes"});
  });
}

void Copier::start_link(CopyItem item) {
  writers_->submit([this, item = std::move(item)]() mutable {
    Result<std::unique_ptr<StagedFile>> link = context_.tree->start_link(item.to, *item.leads_to);
    queue_.release_slot();
    if (!link.ok()) return finished(item, link.error());
    publish(std::move(item), std::move(*link));
  });
}

void Copier::start_copy_within_s3(CopyItem item) {
  const std::string from = item.key;
  const std::string to = item.to;
  within_s3_->to->async_copy_from(
      *within_s3_->from, from, to, context_.call<store::CallOptions>(),
      [this, item = std::move(item)](const Result<store::ObjectInfo>& copied) mutable {
        queue_.release_slot();
        if (!copied.ok()) return finished(item, copied.error());
        item.source.size = copied->size;  // Of the version that was there by then.
        context_.tally.moved(copied->size);
        finished(item, {});
      });
}

void Copier::publish(CopyItem item, std::unique_ptr<StagedFile> file) {
  // Where names are folded, one that is new may be another's: that must not be replaced.
  const bool must_be_free = item.is_new && context_.tree->folds_case();
  const io::RenameMode mode = must_be_free ? io::RenameMode::kNoReplace : io::RenameMode::kReplace;
  context_.publisher->add(
      std::move(file), mode, [this, item = std::move(item)](const Result<void>& published) {
        if (published.ok() || published.error().code != ErrorCode::kExists) {
          return finished(item, published);
        }
        finished(item, published.error().with_context(
                           "another name that differs only by case, or a directory, is there"));
      });
}

void Copier::finished(const CopyItem& item, const Result<void>& outcome) {
  if (outcome.ok()) context_.tally.copied(item.source.size);
  if (!outcome.ok()) context_.tally.failed(item.key, outcome.error());
  queue_.close_item();
}

void Copier::try_again_or_fail(CopyItem item, const Error& error) {
  const bool may_pass = error.code == ErrorCode::kChanged || error.code == ErrorCode::kCorrupt;
  if (!may_pass) return finished(item, error);
  if (++item.attempts >= kAttempts) {
    const bool changes = error.code == ErrorCode::kChanged;
    return finished(
        item,
        changes ? make_error(ErrorCode::kChanged, fmt::format(kKeepsChanging, kAttempts)) : error);
  }
  // With what the source is now.
  const std::string key = item.key;
  context_.from.store->async_head(
      key, context_.call<store::CallOptions>(),
      [this, item = std::move(item)](const Result<store::ObjectInfo>& info) mutable {
        if (!info.ok()) return finished(item, info.error());
        item.source = {info->size, info->mtime_ns, info->etag};
        item.info = *info;
        queue_.push_again(std::move(item));
      });
}

// A tree's file has the time; of an object, the one that was recorded when it was put.
std::optional<int64_t> Copier::file_time(const CopyItem& item,
                                         const store::ObjectInfo& info) const {
  if (context_.from_tree()) return info.mtime_ns;
  if (info.kept_mtime_ns) return info.kept_mtime_ns;
  // Listings may tell it more exactly.
  return info.etag == item.source.etag ? item.source.mtime_ns : info.mtime_ns;
}

std::optional<uint32_t> Copier::file_mode(const CopyItem& item,
                                          const store::ObjectInfo& info) const {
  return context_.from_tree() ? item.mode : info.kept_mode;
}

store::PutOptions Copier::put_options(const CopyItem& item, const store::ObjectInfo& info) const {
  auto options = context_.call<store::PutOptions>();
  options.mtime_ns = context_.from_tree() ? std::optional(info.mtime_ns) : info.kept_mtime_ns;
  options.mode = file_mode(item, info);
  options.size = info.size;
  return options;
}

}  // namespace penstock::sync
