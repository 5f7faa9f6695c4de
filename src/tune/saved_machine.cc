#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tune/machine.h"
#include "tune/text.h"

namespace penstock::tune::doctor {

namespace {

using PlainJson = nlohmann::json;

constexpr std::string_view kUnknown = "not in the saved tree";

constexpr uint64_t kLargestErrno = 4095;

Error wrong_fact(const std::string& name, std::string_view wanted, const PlainJson& value) {
  constexpr size_t kShown = 40;
  std::string shown = value.dump(-1, ' ', true, PlainJson::error_handler_t::replace);
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' must be {}, not {}", printable(name), wanted, shown));
}

// What a fact is held against; `name` is its place in the file, for messages.
using Expect = Result<void> (*)(const std::string& name, const PlainJson& value);

Result<void> expect_count(const std::string& name, const PlainJson& value) {
  if (!value.is_number_unsigned()) return wrong_fact(name, "a whole number from 0 on", value);
  return {};
}

Result<void> expect_errno(const std::string& name, const PlainJson& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargestErrno)
    return wrong_fact(name, fmt::format("a whole number from 0 to {}", kLargestErrno), value);
  return {};
}

Result<void> expect_text(const std::string& name, const PlainJson& value) {
  if (!value.is_string()) return wrong_fact(name, "a text", value);
  return {};
}

// An object whose every member is as `Member` expects.
template <Expect Member>
Result<void> expect_all(const std::string& name, const PlainJson& value) {
  if (!value.is_object()) return wrong_fact(name, "an object", value);
  for (const auto& [key, member] : value.items()) PENSTOCK_TRY(Member(name + "." + key, member));
  return {};
}

// A field that is not known is left alone: a newer version may have written it.
Result<void> check_facts(const PlainJson& json) {
  struct Field {
    const char* name;
    Expect expect;
  };
  constexpr std::array<Field, 6> kFields = {{
      {"space", expect_all<expect_all<expect_count>>},
      {"lustre_striping", expect_all<expect_text>},
      {"zfs", expect_all<expect_all<expect_text>>},
      {"nvme_health", expect_all<expect_all<expect_count>>},
      {"memlock_bytes", expect_count},
      {"io_uring_errno", expect_errno},
  }};
  for (const Field& field : kFields) {
    const auto value = json.find(field.name);
    if (value != json.end()) PENSTOCK_TRY(field.expect(field.name, *value));
  }
  return {};
}

uint64_t number_of(const PlainJson& object, const char* name) {
  const auto value = object.find(name);
  return value != object.end() && value->is_number_unsigned() ? value->get<uint64_t>() : 0;
}

// The member of `table` for `key` when it is of the kind wanted; null otherwise.
PlainJson find(const PlainJson& table, const std::string& key, PlainJson::value_t kind) {
  if (!table.is_object()) return nullptr;
  const auto value = table.find(key);
  return value != table.end() && value->type() == kind ? *value : PlainJson(nullptr);
}

Error unknown() {
  return make_error(ErrorCode::kNotFound, std::string(kUnknown));
}

Result<io::SpaceInfo> saved_space(const PlainJson& facts, const std::string& mount_point) {
  const PlainJson entry = find(find(facts, "space", PlainJson::value_t::object), mount_point,
                               PlainJson::value_t::object);
  if (entry.is_null()) return unknown();
  io::SpaceInfo info;
  info.total_bytes = number_of(entry, "total_bytes");
  info.available_bytes = number_of(entry, "available_bytes");
  info.free_bytes = info.available_bytes;
  info.total_inodes = number_of(entry, "total_inodes");
  info.free_inodes = number_of(entry, "free_inodes");
  return info;
}

Result<std::string> saved_text(const PlainJson& table, const std::string& key) {
  const PlainJson text = find(table, key, PlainJson::value_t::string);
  if (text.is_null()) return unknown();
  return text.get<std::string>();
}

Result<NvmeHealth> saved_health(const PlainJson& facts, const std::string& controller) {
  const PlainJson entry = find(find(facts, "nvme_health", PlainJson::value_t::object), controller,
                               PlainJson::value_t::object);
  if (entry.is_null()) return unknown();
  NvmeHealth health;
  health.percentage_used = number_of(entry, "percentage_used");
  health.written_bytes = number_of(entry, "written_bytes");
  health.critical_warning = number_of(entry, "critical_warning");
  if (entry.contains("spare_percent")) health.spare_percent = number_of(entry, "spare_percent");
  health.spare_threshold_percent = number_of(entry, "spare_threshold_percent");
  return health;
}

Facts facts_from(const PlainJson& json) {
  Facts facts = unknown_facts(std::string(kUnknown));
  facts.space = [json](const std::string& path) { return saved_space(json, path); };
  facts.lustre_striping = [json](const std::string& path) {
    return saved_text(find(json, "lustre_striping", PlainJson::value_t::object), path);
  };
  facts.zfs_property = [json](const std::string& dataset, const std::string& property) {
    const PlainJson table = find(json, "zfs", PlainJson::value_t::object);
    return saved_text(find(table, dataset, PlainJson::value_t::object), property);
  };
  facts.nvme_health = [json](const std::string& controller) {
    return saved_health(json, controller);
  };
  if (json.contains("memlock_bytes")) facts.memlock_bytes = number_of(json, "memlock_bytes");
  if (json.contains("io_uring_errno"))
    facts.io_uring_errno = static_cast<int>(number_of(json, "io_uring_errno"));
  return facts;
}

}  // namespace

Result<Machine> saved_machine(const std::string& root) {
  Machine tree(root, unknown_facts(std::string(kUnknown)));
  if (!tree.exists("/proc"))
    return make_error(ErrorCode::kNotFound,
                      fmt::format("'{}' holds no proc: expected a directory with the proc, sys "
                                  "and etc of a machine",
                                  root));
  if (!tree.exists("/penstock-facts.json")) return tree;
  const std::string text = PENSTOCK_TRY(tree.read("/penstock-facts.json"));
  const PlainJson json = PlainJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return make_error(ErrorCode::kInvalid, root + "/penstock-facts.json is not a JSON object");
  const Result<void> sound = check_facts(json);
  if (!sound) return sound.error().with_context(root + "/penstock-facts.json");
  return Machine(root, facts_from(json));
}

}  // namespace penstock::tune::doctor
