#include "store/tree_files.h"

#include <fmt/core.h>

#include <cerrno>
#include <deque>

#include "base/log.h"

namespace penstock::store {

namespace {

constexpr int kLinksFollowedMax = 40;
constexpr size_t kKeyBytesMax = 1024;

void prepend_parts(std::deque<std::string>& parts, std::string_view path) {
  size_t end = path.size();
  while (true) {
    const size_t slash = end == 0 ? std::string_view::npos : path.rfind('/', end - 1);
    const size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    if (begin < end) parts.emplace_front(path.substr(begin, end - begin));
    if (slash == std::string_view::npos) return;
    end = slash;
  }
}

Error no_file(std::string_view path) {
  return make_error(ErrorCode::kNotFound, fmt::format("{} is no regular file of the tree", path));
}

// Below such a name nothing is an object, as no listing goes there.
bool has_temporary_part(std::string_view key) {
  return key.starts_with(kTreeTemporaryPrefix) ||
         key.find(std::string("/") + std::string(kTreeTemporaryPrefix)) != std::string_view::npos;
}

}  // namespace

bool is_missing(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.os_errno == ENAMETOOLONG;
}

std::string_view folder_of(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : key.substr(0, slash + 1);
}

ObjectInfo tree_object_info(const std::string& key, const io::FileInfo& info) {
  return {key,
          info.size,
          fmt::format("{:x}-{:x}-{:x}", info.size, info.mtime_ns, info.inode),
          info.mtime_ns,
          info.mtime_ns,
          info.mode & kKeptModeBits};
}

Result<std::string> real_path(io::FileSystem& fs, const std::string& path) {
  std::deque<std::string> parts;
  prepend_parts(parts, path);
  std::string real;  // Empty: the root directory.
  for (int links_left = kLinksFollowedMax; !parts.empty();) {
    const std::string part = std::move(parts.front());
    parts.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      real.resize(real.empty() ? 0 : real.rfind('/'));
      continue;
    }
    const std::string next = real + "/" + part;
    const io::FileInfo info = PENSTOCK_TRY(fs.stat_link(next));
    if (info.kind != io::FileKind::kSymlink) {
      real = next;
      continue;
    }
    if (links_left-- == 0) {
      return make_error(ErrorCode::kInvalid, fmt::format("{}: too many symbolic links", path));
    }
    const std::string target = PENSTOCK_TRY(fs.read_link(next));
    if (target.starts_with('/')) real.clear();
    prepend_parts(parts, target);
  }
  return real.empty() ? "/" : real;
}

std::string TreeFiles::path_of(std::string_view key) const {
  if (key.empty()) return root_;
  std::string path;
  path.reserve(root_.size() + 1 + key.size());
  if (root_ != "/") path += root_;
  path += '/';
  path += key;
  return path;
}

Result<io::FileInfo> TreeFiles::look(std::string_view key) const {
  return fs_.stat_link(path_of(key));
}

Result<bool> TreeFiles::has_folder(std::string_view folder, size_t known) const {
  for (size_t slash = folder.find('/', known); slash != std::string_view::npos;
       slash = folder.find('/', slash + 1)) {
    const Result<io::FileInfo> info = look(folder.substr(0, slash));
    if (!info.ok() && is_missing(info.error())) return false;
    if (!info.ok()) return info.error();
    if (info->kind != io::FileKind::kDirectory) return false;
  }
  return true;
}

Result<TreeFile> TreeFiles::find(const std::string& key) const {
  if (has_temporary_part(key)) return no_file(key);
  if (!PENSTOCK_TRY(has_folder(folder_of(key)))) return no_file(key);
  return find_in_folder(key);
}

Result<std::unique_ptr<io::File>> TreeFiles::open(const std::string& key) const {
  if (has_temporary_part(key)) return no_file(key);
  if (root_is_real()) {
    // The kernel refuses links faster than we find them. But nothing else than a file is opened: a
    // pipe would wait for its other end.
    const std::string path = path_of(key);
    const io::FileInfo info = PENSTOCK_TRY(fs_.stat_link(path));
    if (info.kind == io::FileKind::kFile) {
      Result<std::unique_ptr<io::File>> file = fs_.open(path, {.follow_links = false});
      if (file.ok() || file.error().os_errno != ELOOP) return file;
    }
  }
  const TreeFile file = PENSTOCK_TRY(find(key));
  return fs_.open(file.path, {});
}

Result<TreeFile> TreeFiles::find_in_folder(const std::string& key) const {
  std::string path = path_of(key);
  io::FileInfo info = PENSTOCK_TRY(fs_.stat_link(path));
  TreeFile file{std::move(path), info};
  if (file.info.kind == io::FileKind::kSymlink && root_is_real()) {
    const Result<std::string> real = real_path(fs_, file.path);
    if (!real.ok() && real.error().code == ErrorCode::kIo) return real.error();
    const bool inside = real.ok() && real->starts_with(root_ == "/" ? root_ : root_ + "/");
    if (!real.ok() || !(inside || links_out_)) return no_file(key);
    info = PENSTOCK_TRY(fs_.stat_link(*real));
    file = {*real, info};
  }
  if (file.info.kind != io::FileKind::kFile) return no_file(key);
  return file;
}

Result<void> TreeFiles::list(const std::string& folder,
                             const std::function<bool(const io::DirectoryEntry&)>& visit) const {
  return fs_.list(path_of(folder.empty() ? folder : folder.substr(0, folder.size() - 1)), visit);
}

Result<bool> TreeFiles::has_object(const std::string& folder) const {
  bool found = false;
  std::vector<std::string> deeper;
  std::vector<std::string> links;
  const Result<void> listed = list(folder, [&](const io::DirectoryEntry& entry) {
    const bool hidden = entry.name.starts_with(kTreeTemporaryPrefix);
    if (entry.kind == io::FileKind::kDirectory) deeper.push_back(folder + entry.name + "/");
    if (entry.kind == io::FileKind::kSymlink) links.push_back(folder + entry.name);
    found = found || (entry.kind == io::FileKind::kFile && !hidden);
    return !found;
  });
  if (!listed.ok() && !is_missing(listed.error())) return listed.error();
  for (const std::string& link : links) found = found || find(link).ok();
  for (const std::string& below : deeper) {
    if (found || below.size() > kKeyBytesMax) break;
    found = PENSTOCK_TRY(has_object(below));
  }
  return found;
}

TreeWalk::TreeWalk(const TreeFiles& files, const ListOptions& options)
    : files_(files), options_(options) {}

// Whether the listing shows `name`, or something in it when it is a directory, which ends with '/'.
bool TreeWalk::wanted(const std::string& name) const {
  const std::string& prefix = options_.prefix;
  if (!name.starts_with(prefix) && !(is_folder(name) && prefix.starts_with(name))) return false;
  if (name > options_.start_after) return true;
  const bool folded = options_.by_folder && is_folder(name) && name.size() > prefix.size();
  return is_folder(name) && !folded && options_.start_after.starts_with(name);
}

Result<void> TreeWalk::enter(std::string folder, const std::string& after) {
  Frame frame{std::move(folder), NameWindow()};
  std::string name = frame.folder;
  const Result<void> listed = files_.list(frame.folder, [&](const io::DirectoryEntry& entry) {
    if (entry.kind == io::FileKind::kOther) return true;
    if (entry.name.starts_with(kTreeTemporaryPrefix)) return true;
    name.resize(frame.folder.size());
    name += entry.name;
    if (entry.kind == io::FileKind::kDirectory) name += '/';
    if (name.size() > kKeyBytesMax) {
      log_once(LogLevel::kWarn, "tree-long-path",
               "paths longer than 1024 bytes cannot be keys and are left out", {{"path", name}});
      return true;
    }
    const std::string_view last = std::string_view(name).substr(frame.folder.size());
    if (last > after && wanted(name)) frame.names.add(last);
    return true;
  });
  // A directory that went away meanwhile has nothing; the root must be there.
  const bool gone = !listed.ok() && is_missing(listed.error()) && !frame.folder.empty();
  if (!listed.ok() && !gone) return listed;
  frames_.push_back(std::move(frame));
  return {};
}

// Begins in the deepest directory that all wanted keys are in.
Result<void> TreeWalk::start() {
  started_ = true;
  const size_t slash = options_.prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : options_.prefix.substr(0, slash + 1);
  if (!folder.empty()) {
    if (!check_key(std::string_view(folder).substr(0, slash)).ok()) return {};
    if (!PENSTOCK_TRY(files_.has_folder(folder))) return {};
  }
  return enter(folder, "");
}

Result<std::optional<std::string>> TreeWalk::next() {
  if (!started_) PENSTOCK_TRY(start());
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    std::optional<std::string> name = frame.names.take();
    if (!name) {
      const std::optional<std::string> after = frame.names.complete_up_to();
      const std::string folder = frame.folder;
      frames_.pop_back();
      if (after) PENSTOCK_TRY(enter(folder, *after));
      continue;
    }
    name->insert(0, frame.folder);
    if (!is_folder(*name)) return name;
    if (!options_.by_folder || name->size() <= options_.prefix.size()) {
      PENSTOCK_TRY(enter(*name, ""));
      continue;
    }
    if (PENSTOCK_TRY(files_.has_object(*name))) return name;
  }
  return std::optional<std::string>();
}

size_t TreeWalk::memory_bytes() const {
  size_t bytes = 0;
  for (const Frame& frame : frames_) bytes += frame.folder.size() + frame.names.memory_bytes();
  return bytes;
}

}  // namespace penstock::store
