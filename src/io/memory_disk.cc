#include "io/memory_disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <deque>
#include <unordered_map>
#include <utility>

namespace penstock::io {

namespace {

constexpr size_t kNameBytesMax = 255;
constexpr int kLinksFollowedMax = 40;

// The parts of a path, put before those in `names`.
void prepend_names(std::deque<std::string>& names, std::string_view path) {
  std::vector<std::string> parts;
  for (size_t start = path.find_first_not_of('/'); start != std::string_view::npos;) {
    const size_t end = std::min(path.find('/', start), path.size());
    parts.emplace_back(path.substr(start, end - start));
    start = path.find_first_not_of('/', end);
  }
  names.insert(names.begin(), parts.begin(), parts.end());
}

int64_t system_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Nanoseconds>(now).count();
}

}  // namespace

Error MemoryCall::error(int os_errno) const {
  return errno_error(os_errno, fmt::format("{} {}", verb, path));
}

std::vector<std::vector<size_t>> name_dependencies(const std::vector<NameChange>& changes) {
  std::vector<std::vector<size_t>> dependencies(changes.size());
  std::map<std::pair<InodeId, std::string_view>, size_t> last_of_name;
  std::unordered_map<InodeId, size_t> last_placing;
  std::unordered_map<InodeId, std::vector<size_t>> inside;
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<size_t>& mine = dependencies[i];
    for (const InodeId directory : changes[i].needs) {
      const auto placed = last_placing.find(directory);
      if (placed != last_placing.end()) mine.push_back(placed->second);
    }
    if (changes[i].emptied != 0) {
      const std::vector<size_t>& earlier = inside[changes[i].emptied];
      mine.insert(mine.end(), earlier.begin(), earlier.end());
    }
    for (const NameChange::Assignment& assignment : changes[i].assignments) {
      const auto [last, first_time] =
          last_of_name.try_emplace({assignment.directory, assignment.name}, i);
      if (!first_time) mine.push_back(std::exchange(last->second, i));
      inside[assignment.directory].push_back(i);
      if (assignment.inode != 0) last_placing[assignment.inode] = i;
    }
  }
  return dependencies;
}

MemoryDisk::MemoryDisk(MemoryOptions options) : options_(std::move(options)) {
  Inode& root = inodes_[kRoot];
  root.kind = FileKind::kDirectory;
  root.links = 1;
  root.references = 2;  // The tree and the durable tree: it is never removed.
  root.parent = kRoot;
  root.attributes.mode = 0755;
  touch(root);
  root.synced_attributes = root.attributes;
}

Result<MemoryDisk::Place> MemoryDisk::find(const MemoryCall& call, bool follow_last,
                                           bool refuse_links) const {
  if (call.path.empty()) return call.error(ENOENT);
  if (call.path.size() >= PATH_MAX) return call.error(ENAMETOOLONG);
  std::deque<std::string> names;
  prepend_names(names, call.path);
  Place place{kRoot, "", kRoot, call.path.back() == '/'};
  for (int links_left = kLinksFollowedMax; !names.empty();) {
    const std::string name = std::move(names.front());
    names.pop_front();
    if (place.inode == 0) return call.error(ENOENT);
    const InodeId here = place.inode;
    const Inode& directory = at(here);
    if (directory.kind != FileKind::kDirectory) return call.error(ENOTDIR);
    if (name.size() > kNameBytesMax) return call.error(ENAMETOOLONG);
    if (name == "." || name == "..") {
      place.name.clear();
      place.inode = name == "." ? here : directory.parent;
      continue;
    }
    const auto found = directory.names.find(name);
    place.directory = here;
    place.name = name;
    place.inode = found == directory.names.end() ? 0 : found->second;
    if (place.inode == 0 || at(place.inode).kind != FileKind::kSymlink) continue;
    if (names.empty() && !follow_last && !place.wants_directory) continue;
    if (refuse_links || links_left-- == 0) return call.error(ELOOP);
    const std::string& target = at(place.inode).target;
    if (names.empty() && target.back() == '/') place.wants_directory = true;
    prepend_names(names, target);
    place.name.clear();
    place.inode = target.front() == '/' ? kRoot : here;
  }
  const bool is_other = place.inode != 0 && at(place.inode).kind != FileKind::kDirectory;
  if (place.wants_directory && is_other) return call.error(ENOTDIR);
  return place;
}

Result<InodeId> MemoryDisk::find_existing(const MemoryCall& call, bool follow_last) const {
  const Place place = PENSTOCK_TRY(find(call, follow_last));
  if (place.inode == 0) return call.error(ENOENT);
  return place.inode;
}

Result<InodeId> MemoryDisk::find_directory(std::string_view verb, const std::string& path) const {
  const MemoryCall call{verb, path};
  const InodeId id = PENSTOCK_TRY(find_existing(call, true));
  if (at(id).kind != FileKind::kDirectory) return call.error(ENOTDIR);
  return id;
}

Result<InodeId> MemoryDisk::make_inode(const MemoryCall& call, const Place& place, FileKind kind,
                                       mode_t permissions, std::string target) {
  if (options_.inode_limit != 0 && used_inodes_ >= options_.inode_limit) return call.error(ENOSPC);
  const InodeId id = ++last_inode_;
  Inode& inode = inodes_[id];
  inode.kind = kind;
  inode.target = std::move(target);
  inode.parent = place.directory;
  inode.links = 1;
  inode.references = 1;
  inode.attributes.mode = permissions & 07777 & ~options_.umask;
  touch(inode);
  inode.synced_attributes = inode.attributes;
  ++used_inodes_;
  NameChange change;
  change.assignments.push_back({place.directory, place.name, id});
  change_names(std::move(change));
  return id;
}

Result<InodeId> MemoryDisk::open(const std::string& path, const OpenOptions& options) {
  const MemoryCall call{"open", path};
  const Create create = options.create;
  const bool follow_last = create != Create::kMustNotExist && !options.plain_only;
  const Place place = PENSTOCK_TRY(find(call, follow_last, !options.follow_links));
  InodeId id = place.inode;
  if (id == 0) {
    if (create == Create::kNever) return call.error(ENOENT);
    if (place.wants_directory) return call.error(EISDIR);
    id = PENSTOCK_TRY(make_inode(call, place, FileKind::kFile, options.permissions));
  } else {
    if (create == Create::kMustNotExist) return call.error(EEXIST);
    const bool only_looks = options.access == Access::kRead && create == Create::kNever;
    if (at(id).kind == FileKind::kDirectory && (!only_looks || options.plain_only)) {
      return call.error(EISDIR);
    }
    if (at(id).kind == FileKind::kSymlink) return call.error(ELOOP);
    if (create == Create::kTruncate) PENSTOCK_TRY(resize(call, id, 0));
  }
  ++at(id).opens;
  retain(id);
  return id;
}

void MemoryDisk::close(InodeId id) {
  Inode& inode = at(id);
  if (--inode.opens == 0 && inode.links == 0) give_back_space(inode);
  release(id);
}

Result<FileInfo> MemoryDisk::stat(const std::string& path, bool follow) const {
  return info(PENSTOCK_TRY(find_existing({"stat", path}, follow)));
}

Result<std::string> MemoryDisk::read_link(const std::string& path) const {
  const MemoryCall call{"read link", path};
  const InodeId id = PENSTOCK_TRY(find_existing(call, false));
  if (at(id).kind != FileKind::kSymlink) return call.error(EINVAL);
  return at(id).target;
}

Result<void> MemoryDisk::check_rename(const MemoryCall& call, const Place& from, const Place& to,
                                      RenameMode mode) const {
  if (from.inode == 0) return call.error(ENOENT);
  if (from.name.empty()) return call.error(EBUSY);
  if (to.name.empty()) return call.error(mode == RenameMode::kNoReplace ? EEXIST : EBUSY);
  const bool moves_directory = at(from.inode).kind == FileKind::kDirectory;
  if (to.inode != 0 && mode == RenameMode::kNoReplace) return call.error(EEXIST);
  if (to.wants_directory && !moves_directory) return call.error(ENOTDIR);
  const std::vector<InodeId> above = ancestors(to.directory);
  if (std::find(above.begin(), above.end(), from.inode) != above.end()) return call.error(EINVAL);
  if (to.inode == 0 || to.inode == from.inode) return {};
  const Inode& replaced = at(to.inode);
  const bool replaces_directory = replaced.kind == FileKind::kDirectory;
  if (moves_directory && !replaces_directory) return call.error(ENOTDIR);
  if (!moves_directory && replaces_directory) return call.error(EISDIR);
  if (!replaced.names.empty()) return call.error(ENOTEMPTY);
  return {};
}

Result<void> MemoryDisk::exchange(const MemoryCall& call, const Place& from, const Place& to) {
  if (from.inode == 0 || to.inode == 0) return call.error(ENOENT);
  if (from.name.empty() || to.name.empty()) return call.error(EBUSY);
  if (from.inode == to.inode) return {};
  const std::vector<InodeId> above_from = ancestors(from.directory);
  std::vector<InodeId> above_to = ancestors(to.directory);
  const auto holds = [](const std::vector<InodeId>& above, InodeId id) {
    return std::find(above.begin(), above.end(), id) != above.end();
  };
  if (holds(above_from, to.inode) || holds(above_to, from.inode)) return call.error(EINVAL);
  NameChange change;
  change.assignments.push_back({from.directory, from.name, to.inode});
  change.assignments.push_back({to.directory, to.name, from.inode});
  if (from.directory != to.directory) {
    change.needs = std::move(above_to);
    change.needs.insert(change.needs.end(), above_from.begin(), above_from.end());
  }
  at(from.inode).parent = to.directory;
  at(to.inode).parent = from.directory;
  at(from.inode).attributes.ctime_ns = tick();
  at(to.inode).attributes.ctime_ns = tick();
  change_names(std::move(change));
  return {};
}

Result<void> MemoryDisk::rename(const std::string& from, const std::string& to, RenameMode mode) {
  const std::string both = fmt::format("{} to {}", from, to);
  const auto named = [&both](Error error) { return errno_error(error.os_errno, "rename " + both); };
  const Result<Place> source = find({"rename", from}, false);
  if (!source.ok()) return named(source.error());
  const Result<Place> target = find({"rename", to}, false);
  if (!target.ok()) return named(target.error());
  if (mode == RenameMode::kExchange) return exchange({"rename", both}, *source, *target);
  PENSTOCK_TRY(check_rename({"rename", both}, *source, *target, mode));
  if (source->inode == target->inode) return {};

  NameChange change;
  change.assignments.push_back({source->directory, source->name, 0});
  change.assignments.push_back({target->directory, target->name, source->inode});
  if (source->directory != target->directory) change.needs = ancestors(target->directory);
  if (target->inode != 0 && at(target->inode).kind == FileKind::kDirectory) {
    change.emptied = target->inode;
  }
  Inode& moved = at(source->inode);
  moved.parent = target->directory;
  moved.attributes.ctime_ns = tick();
  change_names(std::move(change));
  if (target->inode != 0) unlink(target->inode);
  return {};
}

Result<void> MemoryDisk::remove(const std::string& path) {
  const MemoryCall call{"remove", path};
  const Place place = PENSTOCK_TRY(find(call, false));
  if (place.inode == 0) return call.error(ENOENT);
  if (at(place.inode).kind == FileKind::kDirectory) return call.error(EISDIR);
  NameChange change;
  change.assignments.push_back({place.directory, place.name, 0});
  change_names(std::move(change));
  unlink(place.inode);
  return {};
}

Result<void> MemoryDisk::remove_directory(const std::string& path) {
  const MemoryCall call{"remove directory", path};
  const Place place = PENSTOCK_TRY(find(call, false));
  if (place.inode == 0) return call.error(ENOENT);
  if (at(place.inode).kind != FileKind::kDirectory) return call.error(ENOTDIR);
  if (place.name.empty()) return call.error(EBUSY);
  if (!at(place.inode).names.empty()) return call.error(ENOTEMPTY);
  NameChange change;
  change.assignments.push_back({place.directory, place.name, 0});
  change.emptied = place.inode;
  change_names(std::move(change));
  unlink(place.inode);
  return {};
}

Result<void> MemoryDisk::make_directory(const std::string& path, mode_t permissions) {
  const MemoryCall call{"make directory", path};
  const Place place = PENSTOCK_TRY(find(call, false));
  if (place.inode != 0) return call.error(EEXIST);
  PENSTOCK_TRY(make_inode(call, place, FileKind::kDirectory, permissions));
  return {};
}

Result<void> MemoryDisk::make_symlink(const std::string& target, const std::string& path) {
  const MemoryCall call{"make link", path};
  const Place place = PENSTOCK_TRY(find(call, false));
  if (target.empty()) return call.error(ENOENT);
  if (target.size() >= PATH_MAX) return call.error(ENAMETOOLONG);
  if (place.inode != 0) return call.error(EEXIST);
  if (place.wants_directory) return call.error(ENOENT);
  PENSTOCK_TRY(make_inode(call, place, FileKind::kSymlink, 0777, target));
  return {};
}

Result<void> MemoryDisk::make_link(const std::string& file, const std::string& path) {
  const MemoryCall call{"link", path};
  const InodeId id = PENSTOCK_TRY(find_existing({"link", file}, false));
  const Place place = PENSTOCK_TRY(find(call, false));
  if (place.inode != 0) return call.error(EEXIST);
  if (at(id).kind != FileKind::kFile) {
    return make_error(ErrorCode::kUnsupported, call.error(EPERM).detail);
  }
  retain(id);
  ++at(id).links;
  at(id).attributes.ctime_ns = tick();
  NameChange change;
  change.assignments.push_back({place.directory, place.name, id});
  change_names(std::move(change));
  return {};
}

std::vector<DirectoryEntry> MemoryDisk::entries_after(InodeId directory, const std::string& after,
                                                      size_t limit) const {
  std::vector<DirectoryEntry> entries;
  const auto found = inodes_.find(directory);
  if (found == inodes_.end()) return entries;
  const Names& names = found->second.names;
  for (auto entry = names.upper_bound(after); entry != names.end() && entries.size() < limit;
       ++entry) {
    entries.push_back({entry->first, at(entry->second).kind});
  }
  return entries;
}

Result<void> MemoryDisk::sync_directory(const std::string& path) {
  const InodeId directory = PENSTOCK_TRY(find_directory("sync directory", path));
  at(directory).synced_attributes = at(directory).attributes;
  const auto dependencies = name_dependencies(unsynced_names_);
  std::vector<bool> durable(unsynced_names_.size(), false);
  for (size_t i = unsynced_names_.size(); i-- > 0;) {  // Dependencies point to earlier changes.
    const auto& assignments = unsynced_names_[i].assignments;
    durable[i] = durable[i] ||
                 std::any_of(assignments.begin(), assignments.end(), [&](const auto& assignment) {
                   return assignment.directory == directory;
                 });
    if (!durable[i]) continue;
    for (const size_t earlier : dependencies[i]) durable[earlier] = true;
  }
  std::vector<NameChange> changes = std::exchange(unsynced_names_, {});
  for (size_t i = 0; i < changes.size(); ++i) {
    if (durable[i]) {
      make_durable(changes[i]);
    } else {
      unsynced_names_.push_back(std::move(changes[i]));
    }
  }
  return {};
}

Result<void> MemoryDisk::sync_everything(const std::string& path) {
  PENSTOCK_TRY(find_existing({"sync file system of", path}, true));
  for (auto& [id, inode] : inodes_) {
    inode.content.sync();
    inode.synced_attributes = inode.attributes;
  }
  for (const NameChange& change : std::exchange(unsynced_names_, {})) make_durable(change);
  return {};
}

std::vector<InodeId> MemoryDisk::ancestors(InodeId directory) const {
  std::vector<InodeId> found{directory};
  while (found.back() != kRoot) found.push_back(at(found.back()).parent);
  return found;
}

void MemoryDisk::change_names(NameChange change) {
  for (const NameChange::Assignment& assignment : change.assignments) {
    Inode& directory = at(assignment.directory);
    if (assignment.inode == 0) {
      directory.names.erase(assignment.name);
    } else {
      directory.names[assignment.name] = assignment.inode;
      retain(assignment.inode);
    }
    touch(directory);
    retain(assignment.directory);
  }
  unsynced_names_.push_back(std::move(change));
}

void MemoryDisk::make_durable(const NameChange& change) {
  for (const NameChange::Assignment& assignment : change.assignments) {
    Names& names = at(assignment.directory).durable_names;
    const auto before = names.find(assignment.name);
    const InodeId replaced = before == names.end() ? 0 : before->second;
    if (assignment.inode == 0) {
      if (replaced != 0) names.erase(before);
    } else {
      names[assignment.name] = assignment.inode;  // The change's own reference becomes this one's.
    }
    if (replaced != 0) release(replaced);
  }
  for (const NameChange::Assignment& assignment : change.assignments) {
    release(assignment.directory);
  }
}

void MemoryDisk::unlink(InodeId id) {
  Inode& inode = at(id);
  --inode.links;
  inode.attributes.ctime_ns = tick();
  if (inode.links == 0 && inode.opens == 0) give_back_space(inode);
  release(id);
}

void MemoryDisk::retain(InodeId id) {
  ++at(id).references;
}

void MemoryDisk::release(InodeId id) {
  Inode& inode = at(id);
  if (--inode.references > 0) return;
  const Names names = std::move(inode.durable_names);
  inodes_.erase(id);
  for (const auto& [name, child] : names) release(child);
}

void MemoryDisk::touch(Inode& inode) {
  inode.attributes.mtime_ns = tick();
  inode.attributes.ctime_ns = inode.attributes.mtime_ns;
}

int64_t MemoryDisk::tick() {
  const int64_t now = options_.now_ns ? options_.now_ns() : system_now_ns();
  last_time_ns_ = std::max(now, last_time_ns_ + 1);
  return last_time_ns_;
}

}  // namespace penstock::io
