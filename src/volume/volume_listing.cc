#include "volume/volume_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "store/list_page.h"

namespace penstock::volume {

namespace {

constexpr size_t kNamesAtOnce = 1000;

bool is_object(const meta::Entry& entry) {
  return S_ISREG(entry.mode) && !entry.name.starts_with(kTemporaryPrefix);
}

bool overlaps(std::string_view folder, std::string_view prefix) {
  return folder.starts_with(prefix) || prefix.starts_with(folder);
}

// Walks through directories in the order of keys. That is not the order of names: "a/x" comes after
// "a-b", although the directory "a" has the smaller name. So directories wait until their turn.
class Walk {
 public:
  Walk(meta::View& names, const store::ListOptions& options)
      : names_(names), options_(options), page_(options.limit) {}

  Result<store::ListPage> run() {
    PENSTOCK_TRY(walk(meta::kRoot, ""));
    return page_.finish(more_);
  }

 private:
  using Waiting = std::set<std::pair<std::string, meta::Ino>>;  // Names with '/', and who they are.

  Result<void> walk(meta::Ino directory, const std::string& path);
  Result<void> first_names(meta::Ino directory, const std::string& path, std::string& from,
                           Waiting& waiting);
  Result<void> visit_waiting(const std::string& path, Waiting& waiting, std::string_view before);
  Result<void> visit_folder(const std::string& folder, meta::Ino ino);
  Result<void> visit_file(std::string key, meta::Ino ino);
  Result<bool> has_files(meta::Ino directory);
  bool is_full() {
    more_ = more_ || page_.full();
    return more_;
  }

  meta::View& names_;
  const store::ListOptions& options_;
  store::PageFiller page_;
  bool more_ = false;
};

// Where to begin in a directory: nothing of it up to start_after is wanted. Directories whose name
// is the beginning of the first one wanted may come after it all the same.
Result<void> Walk::first_names(meta::Ino directory, const std::string& path, std::string& from,
                               Waiting& waiting) {
  const std::string& floor = std::max(options_.start_after, options_.prefix);
  if (!floor.starts_with(path)) return {};
  from = floor.substr(path.size());
  from = from.substr(0, from.find('/'));
  for (size_t length = 1; length < from.size(); ++length) {
    if (from[length] >= '/' || length > meta::kNameBytesMax) continue;
    const Result<meta::Inode> inode = names_.lookup(directory, from.substr(0, length));
    if (inode.ok() && inode->is_directory()) {
      waiting.emplace(from.substr(0, length) + '/', inode->ino);
    }
  }
  return {};
}

Result<void> Walk::walk(meta::Ino directory, const std::string& path) {
  Waiting waiting;
  std::string from;
  PENSTOCK_TRY(first_names(directory, path, from, waiting));
  while (true) {
    const auto entries = PENSTOCK_TRY(names_.list_names(directory, from, kNamesAtOnce));
    for (const meta::Entry& entry : entries) {
      PENSTOCK_TRY(visit_waiting(path, waiting, entry.name));
      if (more_) return {};
      if (S_ISDIR(entry.mode)) waiting.emplace(entry.name + '/', entry.ino);
      if (is_object(entry)) PENSTOCK_TRY(visit_file(path + entry.name, entry.ino));
      if (more_) return {};
    }
    if (entries.size() < kNamesAtOnce) break;
    from = entries.back().name + '\0';
  }
  return visit_waiting(path, waiting, {});
}

// Those that come before this name; all when it is empty.
Result<void> Walk::visit_waiting(const std::string& path, Waiting& waiting,
                                 std::string_view before) {
  while (!waiting.empty() && !more_) {
    const auto first = waiting.begin();
    if (!before.empty() && first->first > before) return {};
    const std::string folder = path + first->first;
    const meta::Ino ino = first->second;
    waiting.erase(first);
    PENSTOCK_TRY(visit_folder(folder, ino));
  }
  return {};
}

Result<void> Walk::visit_folder(const std::string& folder, meta::Ino ino) {
  if (!overlaps(folder, options_.prefix)) return {};
  const bool folded = options_.by_folder && folder.size() > options_.prefix.size() &&
                      folder.starts_with(options_.prefix);
  if (!folded) {
    if (store::after_folder(folder) <= options_.start_after) return {};
    return walk(ino, folder);
  }
  if (folder <= options_.start_after || !PENSTOCK_TRY(has_files(ino))) return {};
  if (!is_full()) page_.add_folder(folder);
  return {};
}

Result<void> Walk::visit_file(std::string key, meta::Ino ino) {
  if (key <= options_.start_after || !key.starts_with(options_.prefix)) return {};
  const Result<meta::Inode> inode = names_.inode(ino);
  if (!inode.ok()) return {};  // It went meanwhile.
  if (!is_full()) page_.add_object(info_of(std::move(key), *inode));
  return {};
}

Result<bool> Walk::has_files(meta::Ino directory) {
  uint64_t cookie = 0;
  while (true) {
    const auto entries = PENSTOCK_TRY(names_.list(directory, cookie, kNamesAtOnce));
    for (const meta::Entry& entry : entries) {
      if (is_object(entry)) return true;
      if (S_ISDIR(entry.mode) && PENSTOCK_TRY(has_files(entry.ino))) return true;
    }
    if (entries.size() < kNamesAtOnce) return false;
    cookie = entries.back().cookie;
  }
}

}  // namespace

store::ObjectInfo info_of(std::string key, const meta::Inode& inode) {
  store::ObjectInfo info;
  info.key = std::move(key);
  info.size = inode.size;
  info.etag = fmt::format("{:x}-{:x}", inode.ino, inode.data_version);
  info.mtime_ns = inode.mtime;
  info.kept_mtime_ns = inode.mtime;
  info.kept_mode = inode.mode & store::kKeptModeBits;
  return info;
}

Result<store::ListPage> list_page(meta::View& names, const store::ListOptions& options) {
  return Walk(names, options).run();
}

}  // namespace penstock::volume
