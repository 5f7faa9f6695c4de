// The bytes of an operation. The number of an action is its place in the variant, and stays.
#include <fmt/core.h>

#include "volume/operation.h"
#include "volume/record_bytes.h"

namespace penstock::volume {

namespace {

constexpr uint8_t kFormat = 1;

// Which of the optional changes are there.
enum ChangeBits : uint8_t {
  kPermissions = 1,
  kUid = 2,
  kGid = 4,
  kSize = 8,
  kAtime = 16,
  kMtime = 32,
};

struct ActionWriter {
  RecordWriter& out;

  void operator()(const CreateOp& op) {
    out.number(op.parent);
    out.text(op.name);
    out.number(op.inode.mode);
    out.number(op.inode.uid);
    out.number(op.inode.gid);
    out.number(op.inode.rdev);
    out.text(op.inode.target);
  }
  void operator()(const LinkOp& op) {
    out.number(op.ino);
    out.number(op.parent);
    out.text(op.name);
  }
  void operator()(const UnlinkOp& op) {
    out.number(op.parent);
    out.text(op.name);
    out.number(static_cast<uint8_t>(op.directory));
  }
  void operator()(const RenameOp& op) {
    out.number(op.parent);
    out.text(op.name);
    out.number(op.new_parent);
    out.text(op.new_name);
    out.number(static_cast<uint8_t>(op.mode));
  }
  void operator()(const ChangeOp& op) {
    const meta::Changes& changes = op.changes;
    const int bits = (changes.permissions ? kPermissions : 0) | (changes.uid ? kUid : 0) |
                     (changes.gid ? kGid : 0) | (changes.size ? kSize : 0) |
                     (changes.atime ? kAtime : 0) | (changes.mtime ? kMtime : 0);
    out.number(op.ino);
    out.number(static_cast<uint8_t>(bits));
    out.number(changes.permissions.value_or(0));
    out.number(changes.uid.value_or(0));
    out.number(changes.gid.value_or(0));
    out.number(changes.size.value_or(0));
    out.number(changes.atime.value_or(0));
    out.number(changes.mtime.value_or(0));
  }
  void operator()(const SetXattrOp& op) {
    out.number(op.ino);
    out.text(op.name);
    out.text(op.value);
    out.number(static_cast<uint8_t>(op.mode));
  }
  void operator()(const RemoveXattrOp& op) {
    out.number(op.ino);
    out.text(op.name);
  }
  void operator()(const ForgetOp& op) { out.number(op.ino); }
  void operator()(const WriteOp& op) {
    out.number(op.ino);
    out.number(op.offset);
  }
  void operator()(const PunchOp& op) {
    out.number(op.ino);
    out.number(op.offset);
    out.number(op.length);
    out.number(static_cast<uint8_t>(op.zeros));
  }
  void operator()(const AllocateOp& op) {
    out.number(op.ino);
    out.number(op.offset);
    out.number(op.length);
    out.number(static_cast<uint8_t>(op.grow));
  }
  void operator()(const CopyOp& op) {
    out.number(op.from);
    out.number(op.from_offset);
    out.number(op.to);
    out.number(op.to_offset);
    out.number(op.length);
  }
};

bool read_flag(RecordReader& in) {
  const auto flag = in.number<uint8_t>();
  if (flag > 1) in.set_bad();
  return flag == 1;
}

template <typename Mode>
Mode read_mode(RecordReader& in, Mode last) {
  const auto mode = in.number<uint8_t>();
  if (mode > static_cast<uint8_t>(last)) in.set_bad();
  return static_cast<Mode>(mode);
}

template <typename Number>
std::optional<Number> read_optional(RecordReader& in, bool is_there) {
  const auto value = in.number<Number>();
  return is_there ? std::optional(value) : std::nullopt;
}

void read_action(RecordReader& in, CreateOp& op) {
  op.parent = in.number<uint64_t>();
  op.name = in.text();
  op.inode.mode = in.number<uint32_t>();
  op.inode.uid = in.number<uint32_t>();
  op.inode.gid = in.number<uint32_t>();
  op.inode.rdev = in.number<uint64_t>();
  op.inode.target = in.text();
}
void read_action(RecordReader& in, LinkOp& op) {
  op.ino = in.number<uint64_t>();
  op.parent = in.number<uint64_t>();
  op.name = in.text();
}
void read_action(RecordReader& in, UnlinkOp& op) {
  op.parent = in.number<uint64_t>();
  op.name = in.text();
  op.directory = read_flag(in);
}
void read_action(RecordReader& in, RenameOp& op) {
  op.parent = in.number<uint64_t>();
  op.name = in.text();
  op.new_parent = in.number<uint64_t>();
  op.new_name = in.text();
  op.mode = read_mode(in, meta::Rename::kExchange);
}
void read_action(RecordReader& in, ChangeOp& op) {
  op.ino = in.number<uint64_t>();
  const auto bits = in.number<uint8_t>();
  op.changes.permissions = read_optional<uint32_t>(in, (bits & kPermissions) != 0);
  op.changes.uid = read_optional<uint32_t>(in, (bits & kUid) != 0);
  op.changes.gid = read_optional<uint32_t>(in, (bits & kGid) != 0);
  op.changes.size = read_optional<uint64_t>(in, (bits & kSize) != 0);
  op.changes.atime = read_optional<int64_t>(in, (bits & kAtime) != 0);
  op.changes.mtime = read_optional<int64_t>(in, (bits & kMtime) != 0);
}
void read_action(RecordReader& in, SetXattrOp& op) {
  op.ino = in.number<uint64_t>();
  op.name = in.text();
  op.value = in.text();
  op.mode = read_mode(in, meta::XattrMode::kReplace);
}
void read_action(RecordReader& in, RemoveXattrOp& op) {
  op.ino = in.number<uint64_t>();
  op.name = in.text();
}
void read_action(RecordReader& in, ForgetOp& op) {
  op.ino = in.number<uint64_t>();
}
void read_action(RecordReader& in, WriteOp& op) {
  op.ino = in.number<uint64_t>();
  op.offset = in.number<uint64_t>();
}
void read_action(RecordReader& in, PunchOp& op) {
  op.ino = in.number<uint64_t>();
  op.offset = in.number<uint64_t>();
  op.length = in.number<uint64_t>();
  op.zeros = read_flag(in);
}
void read_action(RecordReader& in, AllocateOp& op) {
  op.ino = in.number<uint64_t>();
  op.offset = in.number<uint64_t>();
  op.length = in.number<uint64_t>();
  op.grow = read_flag(in);
}
void read_action(RecordReader& in, CopyOp& op) {
  op.from = in.number<uint64_t>();
  op.from_offset = in.number<uint64_t>();
  op.to = in.number<uint64_t>();
  op.to_offset = in.number<uint64_t>();
  op.length = in.number<uint64_t>();
}

// The alternative with this number, as it is before anything was read.
template <size_t index = 0>
bool choose(size_t number, Action& action) {
  if constexpr (index < std::variant_size_v<Action>) {
    if (number != index) return choose<index + 1>(number, action);
    action.emplace<index>();
    return true;
  } else {
    return false;
  }
}

}  // namespace

std::vector<std::byte> encode_operation(const Operation& operation) {
  RecordWriter out;
  out.number(kFormat);
  out.number(static_cast<uint8_t>(operation.action.index()));
  out.raw(operation.volume);
  out.number(operation.now);
  std::visit(ActionWriter{out}, operation.action);
  return out.take();
}

Result<Operation> decode_operation(std::span<const std::byte> record) {
  RecordReader in(record);
  const auto format = in.number<uint8_t>();
  const auto number = in.number<uint8_t>();
  Operation operation;
  if (!in.bad() && (format != kFormat || !choose(number, operation.action))) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("operation {} of format {} in the journal: of a newer version of Penstock",
                    number, format));
  }
  in.raw(operation.volume);
  operation.now = in.number<int64_t>();
  std::visit([&](auto& action) { read_action(in, action); }, operation.action);
  if (!in.finished()) {
    return make_error(ErrorCode::kCorrupt, "a record of the journal is no operation");
  }
  return operation;
}

}  // namespace penstock::volume
