// How a walk goes from folder to folder. What it does with what it finds is in visit.cc.
#include "sync/walker.h"

#include <fmt/core.h>

#include <thread>

namespace penstock::sync {

namespace {

constexpr size_t kWalkers = 16;  // Waiting for a server or a disk most of the time.
constexpr size_t kPageEntries = 1000;
constexpr size_t kExtraFoldersMax = 65536;

// Where only ASCII differs the two can be named; for the rest see Copier::publish().
std::string fold_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

Walker::Walker(Context& context, Copier& copier) : context_(context), copier_(copier) {}

std::string Walker::source_path(std::string_view key) const {
  if (key.ends_with('/')) key.remove_suffix(1);
  const std::string& root = context_.from.directory;
  return key.empty() ? root : fmt::format("{}/{}", root == "/" ? "" : root, key);
}

void Walker::run() {
  FolderStack stack(context_.options.stop);
  auto top = std::make_unique<FolderTask>();
  top->in_target = !context_.target_missing();
  stack.push(std::move(top));
  walk_all(stack);
}

void Walker::run_blocked(const std::vector<std::string>& blocked) {
  is_last_ = true;
  FolderStack stack(context_.options.stop);
  for (const std::string& key : blocked) {
    if (!key.ends_with('/')) {
      visit_one(key, key);
      continue;
    }
    Pair pair;
    pair.source.kind = EntryKind::kFolder;
    pair.source.key = key;
    visit(stack, {.in_target = true}, pair);
  }
  walk_all(stack);
}

void Walker::walk_all(FolderStack& stack) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kWalkers; ++i) {
    threads.emplace_back([this, &stack, i] {
      set_thread_name(fmt::format("sync-walk-{}", i));
      work(stack);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Leftovers Walker::take_leftovers() {
  std::lock_guard lock(mutex_);
  return std::exchange(leftovers_, {});
}

void Walker::work(FolderStack& stack) {
  while (std::unique_ptr<FolderTask> task = stack.pop()) {
    walk(stack, std::move(task));
    stack.done();
  }
}

// One page of a folder. The rest of it goes back first, so that another thread can take it, and
// what lies deeper comes on top.
void Walker::walk(FolderStack& stack, std::unique_ptr<FolderTask> task) {
  const std::string folder = task->folder;
  const std::string clash = task->clash;
  Page page;
  const Result<bool> more = take_page(*task, page);
  if (!more.ok()) context_.tally.failed(folder, more.error());
  const FolderSeen seen{task->in_target, task->target != nullptr};
  if (more.ok() && *more) stack.push(std::move(task));
  for (Pair& pair : page) {
    if (context_.stopped()) return;
    if (!clash.empty()) pair.clash = clash;
    visit(stack, seen, pair);
  }
}

void Walker::begin(FolderTask& task) {
  const std::stop_token stop = context_.options.stop;
  if (context_.from_tree()) {
    task.source = list_tree_folder(*context_.from.file_system, context_.from.directory, task.folder,
                                   [this](const std::string& key) {
                                     if (!context_.filters.selects(key)) return;
                                     context_.tally.skipped(key, "an unfinished file of a sync");
                                   });
  } else {
    task.source = list_store_folder(*context_.from.store, task.folder, stop);
  }
  if (!task.in_target) return;
  if (!context_.to_tree()) {
    task.target = list_store_folder(*context_.to.store, task.folder, stop);
  } else if (context_.options.delete_extra || context_.tree->folds_case()) {
    task.target = list_tree_folder(*context_.to.file_system, context_.to.directory, task.folder,
                                   [this](const std::string& key) {
                                     const bool tidies =
                                         context_.options.delete_extra && !context_.options.dry_run;
                                     if (tidies) context_.tree->remove_if_old(key);
                                   });
  }
}

// Fills the page; false when that was the last.
Result<bool> Walker::take_page(FolderTask& task, Page& page) {
  if (!task.source) begin(task);
  while (page.size() < kPageEntries) {
    const Entry* entry = PENSTOCK_TRY(task.source->peek());
    if (entry == nullptr) {
      PENSTOCK_TRY(look_for_extras(task));
      return false;
    }
    Pair pair;
    pair.source = *entry;
    task.source->advance();
    const bool is_odd = pair.source.kind == EntryKind::kOdd;
    if (!is_odd) PENSTOCK_TRY(find_in_target(task, pair));
    if (!is_ours(pair.source)) continue;
    if (!is_odd) find_clash(task, pair);
    page.push_back(std::move(pair));
  }
  return true;
}

// Whether the filters leave it, or something in it, to this run.
bool Walker::is_ours(const Entry& entry) const {
  return entry.kind == EntryKind::kFolder ? context_.filters.may_select_below(entry.key)
                                          : context_.filters.selects(entry.key);
}

// Both sides are sorted: what comes before in the target, only the target has.
Result<void> Walker::find_in_target(FolderTask& task, Pair& pair) {
  if (!task.target) return {};
  while (const Entry* there = PENSTOCK_TRY(task.target->peek())) {
    const bool is_odd = there->kind == EntryKind::kOdd;
    if (!is_odd && there->key > pair.source.key) return {};
    const bool found = !is_odd && there->key == pair.source.key;
    if (found) pair.target = *there;
    if (!found) note_extra(task, *there);
    task.target->advance();
    if (found) return {};
  }
  return {};
}

Result<void> Walker::look_for_extras(FolderTask& task) {
  if (!task.target || !context_.options.delete_extra) return {};
  while (const Entry* there = PENSTOCK_TRY(task.target->peek())) {
    note_extra(task, *there);
    task.target->advance();
  }
  return {};
}

void Walker::note_extra(FolderTask& task, const Entry& entry) {
  if (!context_.options.delete_extra || task.has_extra || !is_ours(entry)) return;
  const bool marks_folder = entry.kind == EntryKind::kOdd && entry.key == task.folder;
  if (marks_folder) return;
  task.has_extra = true;
  std::lock_guard lock(mutex_);
  if (leftovers_.extra_everywhere) return;
  leftovers_.extra_folders.push_back(task.folder);
  if (leftovers_.extra_folders.size() <= kExtraFoldersMax) return;
  leftovers_.extra_everywhere = true;
  leftovers_.extra_folders.clear();
}

void Walker::find_clash(FolderTask& task, Pair& pair) {
  if (!context_.to_tree()) return;
  const auto clash_text = [this](const std::string& one, const std::string& other) {
    return fmt::format("'{}' and '{}' cannot both be in {}", one, other, context_.to.description());
  };
  const std::string& key = pair.source.key;
  std::vector<std::string>& open = task.open_names;
  while (!open.empty() && !key.starts_with(open.back())) open.pop_back();
  if (pair.source.kind == EntryKind::kFolder && !open.empty() &&
      open.back().size() + 1 == key.size()) {
    pair.clash = clash_text(open.back(), key);
  }
  if (pair.source.kind != EntryKind::kFolder) open.push_back(key);
  if (!context_.tree->folds_case()) return;
  std::string folded = fold_case(key);
  if (folded.ends_with('/')) folded.pop_back();
  const auto [there, is_new] = task.folded.try_emplace(std::move(folded), key);
  if (!is_new) pair.clash = clash_text(there->second, key);
}

}  // namespace penstock::sync
