#include "volume/operation_text.h"

#include <fmt/core.h>

#include "base/log.h"

namespace penstock::volume {

namespace {

class Fields {
 public:
  Fields& kind(std::string_view name) { return text("operation", name); }
  Fields& text(std::string_view name, std::string_view value) {
    return add(name, fmt::format("\"{}\"", json_escape(value)));
  }
  template <typename Number>
  Fields& number(std::string_view name, Number value) {
    return add(name, fmt::format("{}", value));
  }
  template <typename Number>
  Fields& number(std::string_view name, const std::optional<Number>& value) {
    return value ? number(name, *value) : *this;
  }
  Fields& mode(std::string_view name, uint32_t value) {
    return add(name, fmt::format("\"{:o}\"", value));
  }
  Fields& flag(std::string_view name, bool value) { return add(name, value ? "true" : "false"); }
  std::string take() { return std::move(fields_); }

 private:
  Fields& add(std::string_view name, std::string_view value) {
    fields_ += fmt::format("{}\"{}\": {}", fields_.empty() ? "" : ", ", name, value);
    return *this;
  }
  std::string fields_;
};

struct Teller {
  Fields& to;

  void operator()(const CreateOp& op) {
    to.kind("create").number("parent", op.parent).text("name", op.name);
    to.mode("mode", op.inode.mode).number("uid", op.inode.uid).number("gid", op.inode.gid);
    if (op.inode.rdev != 0) to.number("rdev", op.inode.rdev);
    if (!op.inode.target.empty()) to.text("target", op.inode.target);
  }
  void operator()(const LinkOp& op) {
    to.kind("link").number("inode", op.ino).number("parent", op.parent).text("name", op.name);
  }
  void operator()(const UnlinkOp& op) {
    to.kind(op.directory ? "rmdir" : "unlink").number("parent", op.parent).text("name", op.name);
  }
  void operator()(const RenameOp& op) {
    to.kind("rename").number("parent", op.parent).text("name", op.name);
    to.number("new_parent", op.new_parent).text("new_name", op.new_name);
    if (op.mode == meta::Rename::kExchange) to.flag("exchange", true);
  }
  void operator()(const ChangeOp& op) {
    to.kind("change").number("inode", op.ino);
    if (op.changes.permissions) to.mode("permissions", *op.changes.permissions);
    to.number("uid", op.changes.uid).number("gid", op.changes.gid).number("size", op.changes.size);
    to.number("atime", op.changes.atime).number("mtime", op.changes.mtime);
  }
  void operator()(const SetXattrOp& op) {
    to.kind("set xattr").number("inode", op.ino).text("name", op.name).text("value", op.value);
  }
  void operator()(const RemoveXattrOp& op) {
    to.kind("remove xattr").number("inode", op.ino).text("name", op.name);
  }
  void operator()(const ForgetOp& op) { to.kind("forget").number("inode", op.ino); }
  void operator()(const WriteOp& op) {
    to.kind("write").number("inode", op.ino).number("offset", op.offset);
  }
  void operator()(const PunchOp& op) {
    to.kind(op.zeros ? "zero" : "punch").number("inode", op.ino).number("offset", op.offset);
    to.number("length", op.length);
  }
  void operator()(const AllocateOp& op) {
    to.kind("allocate").number("inode", op.ino).number("offset", op.offset);
    to.number("length", op.length).flag("grow", op.grow);
  }
  void operator()(const CopyOp& op) {
    to.kind("copy").number("from", op.from).number("from_offset", op.from_offset);
    to.number("to", op.to).number("to_offset", op.to_offset).number("length", op.length);
  }
};

}  // namespace

std::string operation_fields(const Operation& operation) {
  Fields fields;
  std::visit(Teller{fields}, operation.action);
  return fields.take();
}

}  // namespace penstock::volume
