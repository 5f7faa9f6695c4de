// A namespace in plain memory, for comparison: written to be obvious, not fast. Each call answers
// with an errno, 0 for success, and changes nothing otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/meta.h"

namespace penstock::meta {

struct ModelNode {
  Inode inode;
  Ino parent = 0;
  std::string target;
  std::vector<std::pair<std::string, Ino>> entries;  // In the order of their making.
  std::map<std::string, std::string> xattrs;
  // Of each byte: kHole, kZero, or what identifies it among all that were ever written.
  std::vector<uint64_t> bytes;
};

class Model {
 public:
  static constexpr uint64_t kHole = 0;
  static constexpr uint64_t kZero = 1;
  // Byte `offset` of the chunk that is known by `tag`.
  static uint64_t byte_of(uint64_t tag, uint64_t offset) { return (tag << 20) + offset; }

  Model();

  const std::map<Ino, ModelNode>& nodes() const { return nodes_; }
  ModelNode* find(Ino ino);
  ModelNode* find(Ino parent, const std::string& name);
  Totals totals() const;

  // `ino` is the number that the namespace under test gave.
  int create(Ino parent, const std::string& name, const NewInode& wanted, Ino ino, Time now);
  int link(Ino ino, Ino parent, const std::string& name, Time now);
  int remove(Ino parent, const std::string& name, bool directory, Time now);
  int rename(Ino parent, const std::string& name, Ino new_parent, const std::string& new_name,
             Rename mode, Time now);
  int change(Ino ino, const Changes& changes, Time now);
  int set_xattr(Ino ino, const std::string& name, const std::string& value, XattrMode mode,
                Time now);
  int remove_xattr(Ino ino, const std::string& name, Time now);
  int forget(Ino ino);
  int write(Ino ino, uint64_t offset, const std::vector<Place>& chunks, Time now);
  int punch(Ino ino, uint64_t offset, uint64_t length, bool zeros, Time now);
  int allocate(Ino ino, uint64_t offset, uint64_t length, bool grow, Time now);
  int copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                 Time now);

 private:
  int check_directory(Ino ino);
  int check_file(Ino ino);
  bool is_below(Ino directory, Ino top);
  void touch(Ino directory, Time now);
  void drop_entry(Ino parent, const std::string& name);
  using Name = std::pair<Ino, std::string>;
  void move_entry(const Name& from, const Name& to, Ino ino);

  std::map<Ino, ModelNode> nodes_;
};

}  // namespace penstock::meta
