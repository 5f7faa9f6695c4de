#include <algorithm>
#include <cerrno>

#include "meta/model.h"

namespace penstock::meta {

Model::Model() {
  ModelNode& root = nodes_[kRoot];
  root.inode.ino = kRoot;
  root.inode.mode = S_IFDIR | 0755;
  root.inode.links = 2;
  root.parent = kRoot;
}

ModelNode* Model::find(Ino ino) {
  const auto found = nodes_.find(ino);
  return found == nodes_.end() ? nullptr : &found->second;
}

ModelNode* Model::find(Ino parent, const std::string& name) {
  for (const auto& [entry, ino] : nodes_.at(parent).entries) {
    if (entry == name) return find(ino);
  }
  return nullptr;
}

Totals Model::totals() const {
  Totals totals;
  for (const auto& [ino, node] : nodes_) {
    ++totals.inodes;
    if (S_ISREG(node.inode.mode)) totals.bytes += node.inode.size;
  }
  return totals;
}

int Model::check_directory(Ino ino) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (!node->inode.is_directory()) return ENOTDIR;
  return node->inode.links == 0 ? ENOENT : 0;
}

// Names came or went: what follows from its entries, and its times.
void Model::touch(Ino directory, Time now) {
  ModelNode& node = nodes_.at(directory);
  node.inode.size = node.entries.size();
  node.inode.links = 2;
  for (const auto& [name, ino] : node.entries) {
    if (nodes_.at(ino).inode.is_directory()) ++node.inode.links;
  }
  node.inode.mtime = node.inode.ctime = now;
}

void Model::drop_entry(Ino parent, const std::string& name) {
  std::erase_if(nodes_.at(parent).entries, [&](const auto& entry) { return entry.first == name; });
}

int Model::create(Ino parent, const std::string& name, const NewInode& wanted, Ino ino, Time now) {
  if (const int error = check_directory(parent)) return error;
  if (find(parent, name) != nullptr) return EEXIST;
  ModelNode& node = nodes_[ino];
  node.inode.ino = ino;
  node.inode.mode = wanted.mode;
  node.inode.uid = wanted.uid;
  node.inode.gid = wanted.gid;
  if ((nodes_.at(parent).inode.mode & S_ISGID) != 0) {
    node.inode.gid = nodes_.at(parent).inode.gid;
    if (node.inode.is_directory()) node.inode.mode |= S_ISGID;
  }
  node.inode.links = node.inode.is_directory() ? 2 : 1;
  node.inode.size = wanted.target.size();
  node.inode.atime = node.inode.mtime = node.inode.ctime = now;
  node.target = wanted.target;
  node.parent = parent;
  nodes_.at(parent).entries.emplace_back(name, ino);
  touch(parent, now);
  return 0;
}

int Model::link(Ino ino, Ino parent, const std::string& name, Time now) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (const int error = check_directory(parent)) return error;
  if (find(parent, name) != nullptr) return EEXIST;
  if (node->inode.is_directory()) return EPERM;
  if (node->inode.links == 0) return ENOENT;
  ++node->inode.links;
  node->inode.ctime = now;
  nodes_.at(parent).entries.emplace_back(name, ino);
  touch(parent, now);
  return 0;
}

int Model::remove(Ino parent, const std::string& name, bool directory, Time now) {
  if (const int error = check_directory(parent)) return error;
  ModelNode* node = find(parent, name);
  if (node == nullptr) return ENOENT;
  if (node->inode.is_directory() != directory) return directory ? ENOTDIR : EISDIR;
  if (!node->entries.empty()) return ENOTEMPTY;
  node->inode.links = directory ? 0 : node->inode.links - 1;
  node->inode.ctime = now;
  drop_entry(parent, name);
  touch(parent, now);
  return 0;
}

bool Model::is_below(Ino directory, Ino top) {
  while (directory != top && directory != kRoot) directory = nodes_.at(directory).parent;
  return directory == top;
}

// To where the new name stood, or, in the same directory, the old one; else to the end.
void Model::move_entry(const Name& from, const Name& to, Ino ino) {
  auto& entries = nodes_.at(to.first).entries;
  const auto is = [](const std::string& name) {
    return [&name](const auto& entry) { return entry.first == name; };
  };
  auto place = std::ranges::find_if(entries, is(to.second));
  if (place == entries.end() && from.first == to.first) {
    std::ranges::find_if(entries, is(from.second))->first = to.second;
    return;
  }
  if (place == entries.end()) place = entries.insert(place, {to.second, ino});
  place->second = ino;
  drop_entry(from.first, from.second);
}

int Model::rename(Ino parent, const std::string& name, Ino new_parent, const std::string& new_name,
                  Rename mode, Time now) {
  if (const int error = check_directory(parent)) return error;
  if (const int error = check_directory(new_parent)) return error;
  ModelNode* moved = find(parent, name);
  ModelNode* target = find(new_parent, new_name);
  if (moved == nullptr) return ENOENT;
  if (mode == Rename::kNoReplace && target != nullptr) return EEXIST;
  if (mode == Rename::kExchange && target == nullptr) return ENOENT;
  if (moved == target) return 0;
  const bool directory = moved->inode.is_directory();
  if (directory && is_below(new_parent, moved->inode.ino)) return EINVAL;
  if (mode == Rename::kExchange) {
    if (target->inode.is_directory() && is_below(parent, target->inode.ino)) return EINVAL;
    for (auto& [entry, ino] : nodes_.at(parent).entries) {
      if (entry == name) ino = target->inode.ino;
    }
    // Where both are in one directory the first loop has changed neither the second's name.
    for (auto& [entry, ino] : nodes_.at(new_parent).entries) {
      if (entry == new_name) ino = moved->inode.ino;
    }
    target->parent = parent;
  } else {
    if (target != nullptr) {
      if (directory != target->inode.is_directory()) return directory ? ENOTDIR : EISDIR;
      if (!target->entries.empty()) return ENOTEMPTY;
      target->inode.links = directory ? 0 : target->inode.links - 1;
    }
    move_entry({parent, name}, {new_parent, new_name}, moved->inode.ino);
  }
  moved->parent = new_parent;
  moved->inode.ctime = now;
  if (target != nullptr) target->inode.ctime = now;
  touch(parent, now);
  touch(new_parent, now);
  return 0;
}

int Model::set_xattr(Ino ino, const std::string& name, const std::string& value, XattrMode mode,
                     Time now) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  const bool there = node->xattrs.contains(name);
  if (there && mode == XattrMode::kCreate) return EEXIST;
  if (!there && mode == XattrMode::kReplace) return ENODATA;
  node->xattrs[name] = value;
  node->inode.ctime = now;
  return 0;
}

int Model::remove_xattr(Ino ino, const std::string& name, Time now) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (node->xattrs.erase(name) == 0) return ENODATA;
  node->inode.ctime = now;
  return 0;
}

int Model::forget(Ino ino) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (node->inode.links != 0) return EBUSY;
  nodes_.erase(ino);
  return 0;
}

}  // namespace penstock::meta
