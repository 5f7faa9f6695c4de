// What changes a volume, as a value: applied to the metadata, recorded in the journal, and applied
// again by a replay. docs/formats/volume-operations.md gives the bytes of the record.
//
// Applied in the same order to the same state, operations have the same outcome, inode numbers
// included; so those that failed need not be recorded, and a replay is exact.
// Threads: all functions are pure, but for apply(), which is as safe as the namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "penstock/meta.h"
#include "volume/uuid.h"

namespace penstock::volume {

struct CreateOp {
  meta::Ino parent = 0;
  std::string name;
  meta::NewInode inode;
};
struct LinkOp {
  meta::Ino ino = 0;
  meta::Ino parent = 0;
  std::string name;
};
struct UnlinkOp {
  meta::Ino parent = 0;
  std::string name;
  bool directory = false;
};
struct RenameOp {
  meta::Ino parent = 0;
  std::string name;
  meta::Ino new_parent = 0;
  std::string new_name;
  meta::Rename mode = meta::Rename::kReplace;
};
struct ChangeOp {
  meta::Ino ino = 0;
  meta::Changes changes;
};
struct SetXattrOp {
  meta::Ino ino = 0;
  std::string name;
  std::string value;
  meta::XattrMode mode = meta::XattrMode::kSet;
};
struct RemoveXattrOp {
  meta::Ino ino = 0;
  std::string name;
};
struct ForgetOp {
  meta::Ino ino = 0;
};
// The bytes are the content of the record.
struct WriteOp {
  meta::Ino ino = 0;
  uint64_t offset = 0;
};
struct PunchOp {
  meta::Ino ino = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool zeros = false;
};
struct AllocateOp {
  meta::Ino ino = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool grow = false;
};
struct CopyOp {
  meta::Ino from = 0;
  uint64_t from_offset = 0;
  meta::Ino to = 0;
  uint64_t to_offset = 0;
  uint64_t length = 0;
};

using Action = std::variant<CreateOp, LinkOp, UnlinkOp, RenameOp, ChangeOp, SetXattrOp,
                            RemoveXattrOp, ForgetOp, WriteOp, PunchOp, AllocateOp, CopyOp>;

struct Operation {
  VolumeUuid volume{};  // Of those in the database, which one.
  meta::Time now = 0;
  Action action;
};

// What it led to.
struct Outcome {
  meta::Inode inode;                 // Made, changed, moved or removed.
  std::optional<meta::Inode> other;  // Of a rename: what was replaced, or took its place.
};

// `content`: where the bytes of a write are.
Result<Outcome> apply(meta::Namespace& names, const Operation& operation,
                      std::span<const meta::Place> content);

std::vector<std::byte> encode_operation(const Operation& operation);
// kCorrupt: no operation. kUnsupported: one of a newer version.
Result<Operation> decode_operation(std::span<const std::byte> record);

}  // namespace penstock::volume
