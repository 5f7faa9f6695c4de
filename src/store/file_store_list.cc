// Listing a file store. Names lie in hashed directories, in no order: a scan of all of them keeps
// the smallest so many, and what one page does not use is kept for the next.
#include "store/file_store.h"

namespace penstock::store {

namespace {

// How long the pages of one listing may be served from one scan: what other processes put
// meanwhile is not in it.
constexpr std::chrono::seconds kScanLifetime{5};

}  // namespace

ListCursor::ListCursor(const ListOptions& options, std::string position)
    : options_(options), stale_at_(deadline_in(kScanLifetime)), position_(std::move(position)) {}

bool ListCursor::continues(const ListOptions& options) const {
  std::lock_guard lock(mutex_);
  return options.prefix == options_.prefix && options.by_folder == options_.by_folder &&
         options.start_after == position_ && std::chrono::steady_clock::now() < stale_at_;
}

void ListCursor::add(std::string_view key) {
  if (!key.starts_with(options_.prefix)) return;
  const std::string_view name = listed_name(key, options_);
  std::lock_guard lock(mutex_);
  if (name > position_) names_.add(name);
}

std::optional<std::string> ListCursor::take() {
  std::lock_guard lock(mutex_);
  std::optional<std::string> name = names_.take();
  if (name) position_ = *name;
  return name;
}

bool ListCursor::exhausted() const {
  std::lock_guard lock(mutex_);
  return names_.empty() && !names_.complete_up_to();
}

std::optional<std::string> ListCursor::left_out_after() const {
  std::lock_guard lock(mutex_);
  return names_.complete_up_to();
}

Result<ListPage> FileStore::do_list(const ListOptions& options) {
  std::shared_ptr<ListCursor> cursor;
  bool kept = false;  // Whether `cursor` is cursor_, in use by this call.
  {
    std::lock_guard lock(cursor_mutex_);
    if (cursor_ && !cursor_in_use_ && !options.start_after.empty() && cursor_->continues(options)) {
      cursor = cursor_;
      cursor_in_use_ = kept = true;
    }
  }
  Result<ListPage> page = fill_page(options, cursor, kept);
  if (kept) {
    std::lock_guard lock(cursor_mutex_);
    cursor_in_use_ = false;
    if (!page.ok() || !page->next) cursor_.reset();
  }
  return page;
}

Result<ListPage> FileStore::fill_page(const ListOptions& options,
                                      std::shared_ptr<ListCursor> cursor, bool& kept) {
  PageFiller page(options.limit);
  if (!cursor) cursor = PENSTOCK_TRY(scan(options, options.start_after, kept));
  while (!page.full()) {
    std::optional<std::string> name = cursor->take();
    if (!name) {
      const std::optional<std::string> after = cursor->left_out_after();
      if (!after) return page.finish(false);
      if (!page.empty()) return page.finish(true);
      cursor = PENSTOCK_TRY(scan(options, *after, kept));
      continue;
    }
    if (is_folder(*name)) {
      page.add_folder(std::move(*name));
      continue;
    }
    const Result<io::FileInfo> info = stat(*name);
    if (!info.ok() && info.error().code == ErrorCode::kNotFound) continue;  // Removed meanwhile.
    if (!info.ok()) return info.error();
    const uint64_t size = info->size < kTrailerBytes ? 0 : info->size - kTrailerBytes;
    page.add_object({std::move(*name), size, {}, info->mtime_ns});
  }
  return page.finish(!cursor->exhausted());
}

// `kept` in and out: whether this call is the one that uses cursor_.
Result<std::shared_ptr<ListCursor>> FileStore::scan(const ListOptions& options,
                                                    const std::string& after, bool& kept) {
  auto cursor = std::make_shared<ListCursor>(options, after);
  {
    // Set before the scan: what is put while it runs is added by note_put().
    std::lock_guard lock(cursor_mutex_);
    if (kept || !cursor_in_use_) {
      cursor_ = cursor;
      cursor_in_use_ = kept = true;
    }
  }
  PENSTOCK_TRY(scan_into(*cursor, options));
  return cursor;
}

Result<void> FileStore::scan_into(ListCursor& cursor, const CallOptions& options) {
  const auto add = [&](const std::string& path) {
    if (const std::optional<std::string> key = path_to_key(path)) cursor.add(*key);
    return true;
  };
  PENSTOCK_TRY(for_each_object_path(fs_, pending_, add));
  PENSTOCK_TRY(for_each_object_path(fs_, promoting_, add));
  std::vector<std::string> directories;
  const Result<void> listed = fs_.list(objects_, [&](const io::DirectoryEntry& entry) {
    if (entry.kind == io::FileKind::kDirectory) directories.push_back(entry.name);
    return true;
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed;
  // objects/ is made with the first flush. But a disk that was unmounted under us must not look
  // like an empty store.
  if (!listed.ok()) PENSTOCK_TRY(prepare_file_store(fs_, root_, /*read_only=*/true));
  for (const std::string& directory : directories) {
    PENSTOCK_TRY(check_call(options));
    PENSTOCK_TRY(for_each_object_path(fs_, objects_ + "/" + directory, add));
  }
  return {};
}

void FileStore::note_put(const std::string& key) {
  std::lock_guard lock(cursor_mutex_);
  if (cursor_) cursor_->add(key);
}

// A name of an object that is gone is noticed when its page is made; a folder's is not.
void FileStore::note_removed() {
  std::lock_guard lock(cursor_mutex_);
  if (cursor_ && cursor_->by_folder()) cursor_.reset();
}

}  // namespace penstock::store
