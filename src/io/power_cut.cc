#include "io/power_cut.h"

#include <algorithm>

#include "io/memory_disk.h"

namespace penstock::io {

PowerCutDice::Habit PowerCutDice::habit() {
  constexpr Habit kHabits[] = {Habit::kDrop, Habit::kKeep, Habit::kTear, Habit::kMixed,
                               Habit::kMixed};
  return kHabits[below(std::size(kHabits))];
}

uint64_t PowerCutDice::prefix_of(uint64_t count) {
  const uint64_t choice = below(3);
  if (choice == 0) return 0;
  return choice == 1 ? count : below(count + 1);
}

void PowerCutDice::tear(Habit habit, UnsyncedChange& write) {
  constexpr Habit kFates[] = {Habit::kDrop, Habit::kKeep, Habit::kTear};
  const Habit fate = habit == Habit::kMixed ? kFates[below(std::size(kFates))] : habit;
  if (fate == Habit::kKeep) return;
  for (UnsyncedChange::Piece& piece : write.pieces) {
    const auto reached = fate == Habit::kTear ? static_cast<SectorMask>(random_()) : SectorMask{0};
    piece.mask = static_cast<SectorMask>(piece.mask & reached);
  }
}

std::vector<bool> PowerCutDice::keep_names(const std::vector<NameChange>& changes) {
  std::vector<bool> kept(changes.size(), keeps_everything());
  if (keeps_nothing() || keeps_everything()) return kept;
  // Half of the time as a journal does it, in order; else each for itself.
  const bool in_order = coin();
  const uint64_t journalled = prefix_of(changes.size());
  const auto dependencies = name_dependencies(changes);
  for (size_t i = 0; i < changes.size(); ++i) {
    kept[i] = (in_order ? i < journalled : coin()) &&
              std::all_of(dependencies[i].begin(), dependencies[i].end(),
                          [&kept](size_t earlier) { return kept[earlier]; });
  }
  return kept;
}

MemoryDisk::Tree MemoryDisk::surviving_names(PowerCutDice& dice) const {
  Tree tree;
  for (const auto& [id, inode] : inodes_) {
    if (inode.kind == FileKind::kDirectory) tree[id] = inode.durable_names;
  }
  const std::vector<bool> kept = dice.keep_names(unsynced_names_);
  for (size_t i = 0; i < unsynced_names_.size(); ++i) {
    if (!kept[i]) continue;
    for (const NameChange::Assignment& assignment : unsynced_names_[i].assignments) {
      Names& names = tree[assignment.directory];
      if (assignment.inode == 0) {
        names.erase(assignment.name);
      } else {
        names[assignment.name] = assignment.inode;
      }
    }
  }
  return tree;
}

void MemoryDisk::adopt(const MemoryDisk& before, const Tree& tree, InodeId id, InodeId parent,
                       PowerCutDice& dice) {
  const Inode& old = before.at(id);
  Inode& inode = inodes_[id];
  if (inode.links > 0 && old.kind == FileKind::kFile) {  // By another of its names.
    ++inode.links;
    inode.references += 2;
    return;
  }
  inode = Inode();
  inode.kind = old.kind;
  inode.target = old.target;
  inode.content = TrackedContent(old.content.after_power_cut(dice));
  const bool newest = !dice.keeps_nothing() && (dice.keeps_everything() || dice.coin());
  inode.attributes = newest ? old.attributes : old.synced_attributes;
  inode.synced_attributes = inode.attributes;
  inode.links = 1;
  inode.references = 2;  // The tree and the durable tree.
  inode.parent = parent;
  used_blocks_ += inode.content.current().block_count();
  ++used_inodes_;
  if (inode.kind != FileKind::kDirectory) return;
  inode.names = tree.at(id);
  inode.durable_names = inode.names;
  for (const auto& [name, child] : tree.at(id)) adopt(before, tree, child, id, dice);
}

MemoryDisk MemoryDisk::after_power_cut(uint64_t seed) const {
  PowerCutDice dice(seed);
  MemoryDisk after(options_);
  after.last_inode_ = last_inode_;
  after.last_time_ns_ = last_time_ns_;
  after.boot_ = boot_ + 1;
  after.used_inodes_ = 0;
  after.adopt(*this, surviving_names(dice), kRoot, kRoot, dice);
  return after;
}

}  // namespace penstock::io
