#include "store/tree_cursors.h"

#include <algorithm>

#include "store/blocking_store.h"
#include "store/list_page.h"

namespace penstock::store {

TreeCursor::TreeCursor(const TreeFiles& files, const ListOptions& options)
    : files_(files),
      prefix_(options.prefix),
      by_folder_(options.by_folder),
      walk_(files, options),
      position_(options.start_after) {}

bool TreeCursor::continues(const ListOptions& options) const {
  return position_ == options.start_after && prefix_ == options.prefix &&
         by_folder_ == options.by_folder;
}

// Looks only at what it did not just look at: of a folder beside the last one that is one call.
Result<bool> TreeCursor::in_tree(std::string_view folder) {
  if (folder_ == folder) return folder_in_tree_;
  size_t known = 0;
  if (folder_ && folder_in_tree_) {
    const auto parted =
        std::mismatch(folder.begin(), folder.end(), folder_->begin(), folder_->end());
    const size_t common = static_cast<size_t>(parted.first - folder.begin());
    known = folder.substr(0, common).rfind('/') + 1;  // 0 when there is none.
  }
  folder_in_tree_ = PENSTOCK_TRY(files_.has_folder(folder, known));
  folder_ = folder;
  return folder_in_tree_;
}

// Finds the next name that is really there.
Result<void> TreeCursor::advance() {
  while (true) {
    next_ = PENSTOCK_TRY(walk_.next());
    if (!next_ || is_folder(*next_)) return {};
    if (!PENSTOCK_TRY(in_tree(folder_of(*next_)))) continue;
    const Result<TreeFile> file = files_.find_in_folder(*next_);
    if (!file.ok() && is_missing(file.error())) continue;
    if (!file.ok()) return file.error();
    next_info_ = tree_object_info(*next_, file->info);
    return {};
  }
}

Result<ListPage> TreeCursor::next_page(const ListOptions& options) {
  folder_.reset();
  if (!started_) PENSTOCK_TRY(advance());
  started_ = true;
  PageFiller filler(options.limit);
  while (next_ && !filler.full()) {
    PENSTOCK_TRY(check_call(options));
    position_ = *next_;
    if (is_folder(position_)) filler.add_folder(position_);
    if (!is_folder(position_)) filler.add_object(std::move(next_info_));
    PENSTOCK_TRY(advance());
  }
  return filler.finish(next_.has_value());
}

void TreeCursors::drop_some(Time now, List& dropped) {
  while (!kept_.empty()) {
    const Kept& oldest = kept_.back();
    const bool too_much = kept_.size() > 1 && bytes_ > bytes_max_;
    if (now - oldest.since < kLifetime && kept_.size() <= kCursorsMax && !too_much) return;
    bytes_ -= oldest.bytes;
    dropped.splice(dropped.begin(), kept_, std::prev(kept_.end()));
  }
}

std::unique_ptr<TreeCursor> TreeCursors::take(const ListOptions& options, Time now) {
  List dropped;
  std::lock_guard lock(mutex_);
  drop_some(now, dropped);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&options](const Kept& kept) {
    return kept.cursor->continues(options);
  });
  if (found == kept_.end()) return nullptr;
  std::unique_ptr<TreeCursor> cursor = std::move(found->cursor);
  bytes_ -= found->bytes;
  kept_.erase(found);
  return cursor;
}

void TreeCursors::keep(std::unique_ptr<TreeCursor> cursor, Time now) {
  List dropped;
  const size_t bytes = cursor->memory_bytes();
  std::lock_guard lock(mutex_);
  bytes_ += bytes;
  kept_.push_front({std::move(cursor), now, bytes});
  drop_some(now, dropped);
}

}  // namespace penstock::store
