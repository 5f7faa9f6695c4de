#include "sync/folder_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "store/tree_files.h"

namespace penstock::sync {

namespace {

class StoreFolder final : public FolderNames {
 public:
  StoreFolder(store::ObjectStore& store, std::string folder, std::stop_token stop) : store_(store) {
    options_.prefix = std::move(folder);
    options_.by_folder = true;
    options_.cancel = std::move(stop);
  }

  Result<const Entry*> peek() override {
    if (entry_) return &*entry_;
    while (true) {
      if (!listed_) PENSTOCK_TRY(list());
      if (take_front()) return &*entry_;
      if (!page_.next) return static_cast<const Entry*>(nullptr);
      options_.start_after = *page_.next;
      listed_ = false;
    }
  }

  void advance() override { entry_.reset(); }

 private:
  Result<void> list() {
    page_ = PENSTOCK_TRY(store_.list(options_));
    object_ = 0;
    folder_ = 0;
    listed_ = true;
    return {};
  }

  // Objects and folders come in two sorted lists. The odd ones are before them, in no order: nothing
  // is compared with them.
  bool take_front() {
    if (!page_.odd.empty()) {
      entry_.emplace();
      entry_->kind = EntryKind::kOdd;
      entry_->key = std::move(page_.odd.back().key);
      entry_->size = page_.odd.back().size;
      page_.odd.pop_back();
      return true;
    }
    const bool has_object = object_ < page_.objects.size();
    const bool has_folder = folder_ < page_.folders.size();
    if (!has_object && !has_folder) return false;
    entry_.emplace();
    if (has_folder && (!has_object || page_.folders[folder_] < page_.objects[object_].key)) {
      entry_->kind = EntryKind::kFolder;
      entry_->key = std::move(page_.folders[folder_++]);
      return true;
    }
    store::ObjectInfo& info = page_.objects[object_++];
    entry_->key = std::move(info.key);
    entry_->size = info.size;
    entry_->mtime_ns = info.mtime_ns;
    entry_->etag = std::move(info.etag);
    return true;
  }

  store::ObjectStore& store_;
  store::ListOptions options_;
  store::ListPage page_;
  bool listed_ = false;
  size_t object_ = 0;
  size_t folder_ = 0;
  std::optional<Entry> entry_;
};

// The names of a directory lie one behind the other in one piece of memory: a million of them must
// not cost a million allocations.
class TreeFolder final : public FolderNames {
 public:
  TreeFolder(io::FileSystem& fs, const std::string& root, std::string folder,
             std::function<void(const std::string& key)> on_unfinished)
      : fs_(fs), folder_(std::move(folder)), on_unfinished_(std::move(on_unfinished)) {
    path_ = folder_.empty() ? root
                            : fmt::format("{}/{}", root == "/" ? "" : root,
                                          std::string_view(folder_).substr(0, folder_.size() - 1));
  }

  Result<const Entry*> peek() override {
    if (!listed_) PENSTOCK_TRY(list());
    if (next_ == names_.size()) return static_cast<const Entry*>(nullptr);
    if (entry_.key.empty()) {
      entry_.kind = names_[next_].kind;
      entry_.key = folder_;
      entry_.key += text_of(names_[next_]);
    }
    return &entry_;
  }

  void advance() override {
    ++next_;
    entry_.key.clear();
  }

 private:
  struct Name {
    uint64_t begin;
    uint32_t size;
    EntryKind kind;
  };

  static EntryKind kind_of(io::FileKind kind) {
    switch (kind) {
      case io::FileKind::kFile:
        return EntryKind::kObject;
      case io::FileKind::kDirectory:
        return EntryKind::kFolder;
      case io::FileKind::kSymlink:
        return EntryKind::kLink;
      case io::FileKind::kOther:
        break;
    }
    return EntryKind::kOther;
  }

  std::string_view text_of(const Name& name) const {
    return std::string_view(text_).substr(name.begin, name.size);
  }

  Result<void> list() {
    listed_ = true;
    std::vector<std::string> unfinished;
    PENSTOCK_TRY(fs_.list(path_, [&](const io::DirectoryEntry& entry) {
      if (entry.name.starts_with(store::kTreeTemporaryPrefix)) {
        if (on_unfinished_) unfinished.push_back(folder_ + entry.name);
        return true;
      }
      const uint64_t begin = text_.size();
      text_ += entry.name;
      if (entry.kind == io::FileKind::kDirectory) text_ += '/';
      names_.push_back({begin, static_cast<uint32_t>(text_.size() - begin), kind_of(entry.kind)});
      return true;
    }));
    for (const std::string& key : unfinished) on_unfinished_(key);
    std::sort(names_.begin(), names_.end(),
              [this](const Name& a, const Name& b) { return text_of(a) < text_of(b); });
    return {};
  }

  io::FileSystem& fs_;
  const std::string folder_;
  const std::function<void(const std::string& key)> on_unfinished_;
  std::string path_;
  bool listed_ = false;
  std::string text_;
  std::vector<Name> names_;
  size_t next_ = 0;
  Entry entry_;
};

}  // namespace

std::unique_ptr<FolderNames> list_store_folder(store::ObjectStore& store, std::string folder,
                                               std::stop_token stop) {
  return std::make_unique<StoreFolder>(store, std::move(folder), std::move(stop));
}

std::unique_ptr<FolderNames> list_tree_folder(
    io::FileSystem& fs, const std::string& root, std::string folder,
    std::function<void(const std::string& key)> on_unfinished) {
  return std::make_unique<TreeFolder>(fs, root, std::move(folder), std::move(on_unfinished));
}

}  // namespace penstock::sync
