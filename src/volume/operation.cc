#include "volume/operation.h"

namespace penstock::volume {

namespace {

using meta::Inode;
using meta::Namespace;

Result<Outcome> only(Result<Inode> inode) {
  if (!inode.ok()) return std::move(inode).error();
  return Outcome{std::move(*inode), std::nullopt};
}

Result<Outcome> nothing(const Result<void>& done) {
  if (!done.ok()) return done.error();
  return Outcome{};
}

struct Applier {
  Namespace& names;
  meta::Time now;
  std::span<const meta::Place> content;

  Result<Outcome> operator()(const CreateOp& op) {
    return only(names.create(op.parent, op.name, op.inode, now));
  }
  Result<Outcome> operator()(const LinkOp& op) {
    return only(names.link(op.ino, op.parent, op.name, now));
  }
  Result<Outcome> operator()(const UnlinkOp& op) {
    Result<meta::Removed> removed = op.directory ? names.remove_directory(op.parent, op.name, now)
                                                 : names.unlink(op.parent, op.name, now);
    if (!removed.ok()) return std::move(removed).error();
    return Outcome{std::move(removed->inode), std::nullopt};
  }
  Result<Outcome> operator()(const RenameOp& op) {
    meta::Renamed renamed =
        PENSTOCK_TRY(names.rename(op.parent, op.name, op.new_parent, op.new_name, op.mode, now));
    return Outcome{std::move(renamed.moved), std::move(renamed.replaced)};
  }
  Result<Outcome> operator()(const ChangeOp& op) {
    return only(names.change(op.ino, op.changes, now));
  }
  Result<Outcome> operator()(const SetXattrOp& op) {
    return nothing(names.set_xattr(op.ino, op.name, op.value, op.mode, now));
  }
  Result<Outcome> operator()(const RemoveXattrOp& op) {
    return nothing(names.remove_xattr(op.ino, op.name, now));
  }
  Result<Outcome> operator()(const ForgetOp& op) { return nothing(names.forget(op.ino)); }
  Result<Outcome> operator()(const WriteOp& op) {
    return only(names.write(op.ino, op.offset, content, now));
  }
  Result<Outcome> operator()(const PunchOp& op) {
    return only(names.punch(op.ino, op.offset, op.length, op.zeros, now));
  }
  Result<Outcome> operator()(const AllocateOp& op) {
    return only(names.allocate(op.ino, op.offset, op.length, op.grow, now));
  }
  Result<Outcome> operator()(const CopyOp& op) {
    return only(names.copy_range(op.from, op.from_offset, op.to, op.to_offset, op.length, now));
  }
};

}  // namespace

Result<Outcome> apply(Namespace& names, const Operation& operation,
                      std::span<const meta::Place> content) {
  return std::visit(Applier{names, operation.now, content}, operation.action);
}

}  // namespace penstock::volume
