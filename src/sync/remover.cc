#include "sync/remover.h"

#include <string_view>
#include <unordered_map>

namespace penstock::sync {

namespace {

constexpr size_t kThreads = 8;
constexpr size_t kRemovalsQueued = 64;
constexpr size_t kBatch = 1000;  // What S3 removes in one request.

}  // namespace

void Remover::clear_way(const std::vector<std::string>& blocked) {
  for (const std::string& key : blocked) {
    if (context_.stopped()) return;
    const Result<void> removed = remove_in_way(key);
    if (!removed.ok()) context_.tally.failed(key, removed.error());
  }
}

// A folder where an object is wanted, or the other way round.
Result<void> Remover::remove_in_way(const std::string& key) {
  if (!key.ends_with('/')) {
    if (context_.filters.may_select_below(key + "/")) PENSTOCK_TRY(empty_folder(key + "/"));
    return {};
  }
  std::vector<std::string> batch = {key.substr(0, key.size() - 1)};
  return context_.filters.selects(batch.front()) ? remove_batch(batch) : Result<void>();
}

void Remover::run(const Leftovers& leftovers) {
  if (leftovers.extra_everywhere) return tidy("", true);
  ThreadPool pool("sync-delete", kThreads, kRemovalsQueued);
  for (const std::string& folder : leftovers.extra_folders) {
    pool.submit([this, folder] { tidy(folder, false); });
  }
  pool.stop();
}

std::unique_ptr<FolderNames> Remover::list_target(const std::string& folder) const {
  if (context_.to_tree()) {
    return list_tree_folder(*context_.to.file_system, context_.to.directory, folder);
  }
  return list_store_folder(*context_.to.store, folder, context_.options.stop);
}

std::unique_ptr<FolderNames> Remover::list_source(const std::string& folder) const {
  if (context_.from_tree()) {
    return list_tree_folder(*context_.from.file_system, context_.from.directory, folder);
  }
  return list_store_folder(*context_.from.store, folder, context_.options.stop);
}

void Remover::tidy(const std::string& folder, bool with_folders_inside) {
  if (context_.stopped()) return;
  const Result<void> tidied = tidy_names(folder, with_folders_inside);
  if (!tidied.ok()) context_.tally.failed(folder, tidied.error());
}

// Both sides are sorted: what the target has and the source has passed by is extra.
Result<void> Remover::tidy_names(const std::string& folder, bool with_folders_inside) {
  const std::unique_ptr<FolderNames> source = list_source(folder);
  const std::unique_ptr<FolderNames> target = list_target(folder);
  std::vector<std::string> batch;
  while (const Entry* there = PENSTOCK_TRY(target->peek())) {
    const Entry* here = PENSTOCK_TRY(source->peek());
    if (here != nullptr && (here->kind == EntryKind::kOdd || here->key < there->key)) {
      source->advance();
      continue;
    }
    if (there->kind == EntryKind::kOdd) {
      // But not the mark of this folder, which the source has too.
      if (there->key != folder) leave_odd(there->key);
      target->advance();
      continue;
    }
    const bool is_extra = here == nullptr || here->key != there->key;
    if (is_extra) PENSTOCK_TRY(remove_extra(*there, batch));
    if (!is_extra && with_folders_inside && there->kind == EntryKind::kFolder) {
      tidy(there->key, true);
    }
    target->advance();
  }
  return remove_batch(batch);
}

Result<void> Remover::remove_extra(const Entry& entry, std::vector<std::string>& batch) {
  if (entry.kind == EntryKind::kFolder) {
    if (context_.filters.may_select_below(entry.key)) PENSTOCK_TRY(empty_folder(entry.key));
    return {};
  }
  if (!context_.filters.selects(entry.key)) return {};
  batch.push_back(entry.key);
  if (batch.size() < kBatch) return {};
  return remove_batch(batch);
}

// A directory that is empty then goes too; one that was empty before only where the filters take it.
Result<Remover::Emptied> Remover::empty_folder(const std::string& folder) {
  const std::unique_ptr<FolderNames> names = list_target(folder);
  std::vector<std::string> batch;
  Emptied emptied{.any = false, .gone = context_.to_tree()};
  while (const Entry* entry = PENSTOCK_TRY(names->peek())) {
    if (entry->kind == EntryKind::kFolder && context_.filters.may_select_below(entry->key)) {
      const Emptied below = PENSTOCK_TRY(empty_folder(entry->key));
      emptied = {emptied.any || below.any, emptied.gone && below.gone};
    } else if (entry->kind == EntryKind::kFolder || !context_.filters.selects(entry->key)) {
      emptied.gone = false;
    } else if (entry->kind == EntryKind::kOdd) {
      leave_odd(entry->key);
    } else {
      emptied.any = true;
      PENSTOCK_TRY(remove_extra(*entry, batch));
    }
    names->advance();
  }
  PENSTOCK_TRY(remove_batch(batch));
  if (!emptied.any && !context_.filters.selects(folder)) emptied.gone = false;
  if (emptied.gone && !context_.options.dry_run) {
    emptied.gone = PENSTOCK_TRY(context_.tree->remove_folder(folder));
  }
  if (emptied.gone) act(folder);
  return emptied;
}

void Remover::leave_odd(const std::string& key) {
  if (!context_.filters.selects(key)) return;
  context_.tally.skipped(key, "only the target has it, and it stays: no copy can have such a key");
}

void Remover::act(const std::string& key) {
  context_.tally.act(Action::kDelete, key, 0, "extra");
  context_.tally.deleted(1);
}

Result<void> Remover::remove_batch(std::vector<std::string>& batch) {
  const std::vector<std::string> keys = std::exchange(batch, {});
  if (keys.empty()) return {};
  if (context_.stopped()) return make_error(ErrorCode::kCancelled, "stopped");
  if (context_.options.dry_run) {
    for (const std::string& key : keys) act(key);
    return {};
  }
  if (context_.to_tree()) {
    for (const std::string& key : keys) {
      const Result<void> removed = context_.tree->remove(key);
      if (removed.ok()) act(key);
      if (!removed.ok()) context_.tally.failed(key, removed.error());
    }
    return {};
  }
  const std::vector<store::RemoveFailure> failures =
      PENSTOCK_TRY(context_.to.store->remove(keys, context_.call<store::CallOptions>()));
  std::unordered_map<std::string_view, const Error*> failed;
  for (const store::RemoveFailure& failure : failures) failed[failure.key] = &failure.error;
  for (const std::string& key : keys) {
    const auto failure = failed.find(key);
    if (failure == failed.end()) act(key);
    if (failure != failed.end()) context_.tally.failed(key, *failure->second);
  }
  return {};
}

}  // namespace penstock::sync
