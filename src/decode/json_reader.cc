#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

Error not_there(std::string_view path) {
  return make_error(ErrorCode::kNotFound, fmt::format("json: nothing at \"{}\"", path));
}

Error other_kind(std::string_view path, std::string_view wanted) {
  return make_error(ErrorCode::kInvalid, fmt::format("json: \"{}\" is not {}", path, wanted));
}

// Of a name that comes twice the last counts, as in Python.
std::optional<element> member(const simdjson::dom::object& object, std::string_view name) {
  std::optional<element> found;
  for (const auto field : object) {
    if (field.key == name) found = field.value;
  }
  return found;
}

std::optional<element> step(const element& from, std::string_view name) {
  simdjson::dom::object object;
  if (from.get(object) == simdjson::SUCCESS) return member(object, name);
  simdjson::dom::array array;
  const Result<int64_t> index = parse_int(name);
  if (!index || *index < 0 || from.get(array) != simdjson::SUCCESS) return std::nullopt;
  element found;
  if (array.at(static_cast<size_t>(*index)).get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

// The part of a JSON pointer that stands between two slashes: ~1 is a slash, ~0 a tilde.
std::string unescape(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escaped =
        part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1');
    name += !escaped ? part[i] : part[i + 1] == '1' ? '/' : '~';
    if (escaped) ++i;
  }
  return name;
}

std::optional<element> walk(element at, std::string_view path) {
  if (path.empty()) return at;
  const bool pointer = path[0] == '/';
  if (pointer) path.remove_prefix(1);
  for (;;) {
    const size_t end = path.find(pointer ? '/' : '.');
    const std::string_view part = path.substr(0, end);
    const std::optional<element> next = step(at, pointer ? unescape(part) : std::string(part));
    if (!next || end == std::string_view::npos) return next;
    at = *next;
    path.remove_prefix(end + 1);
  }
}

Result<int64_t> whole_number(double value, std::string_view path) {
  if (value != std::floor(value) || !(std::abs(value) <= 0x1.0p53)) {
    return other_kind(path, "an integer");
  }
  return static_cast<int64_t>(value);
}

Result<int64_t> to_int(const element& value, std::string_view path) {
  switch (value.type()) {
    case element_type::INT64:
      return value.get_int64().value_unsafe();
    case element_type::DOUBLE:
      return whole_number(value.get_double().value_unsafe(), path);
    case element_type::BOOL:
      return value.get_bool().value_unsafe() ? 1 : 0;
    case element_type::STRING: {
      const Result<int64_t> number = parse_int(value.get_string().value_unsafe());
      if (number) return *number;
      break;
    }
    default:  // UINT64 is what an int64_t cannot hold.
      break;
  }
  return other_kind(path, "an integer of 64 bits");
}

Result<double> to_float(const element& value, std::string_view path) {
  switch (value.type()) {
    case element_type::INT64:
      return static_cast<double>(value.get_int64().value_unsafe());
    case element_type::UINT64:
      return static_cast<double>(value.get_uint64().value_unsafe());
    case element_type::DOUBLE:
      return value.get_double().value_unsafe();
    case element_type::BOOL:
      return value.get_bool().value_unsafe() ? 1.0 : 0.0;
    case element_type::STRING: {
      const Result<double> number = parse_float(value.get_string().value_unsafe());
      if (number) return *number;
      break;
    }
    default:
      break;
  }
  return other_kind(path, "a number");
}

}  // namespace

struct JsonReader::State {
  simdjson::dom::parser parser;
  std::vector<char> padded;  // The parser reads a little beyond the end.

  Result<element> parse(std::span<const std::byte> json);
  Result<element> find(std::span<const std::byte> json, std::string_view path);
};

Result<element> JsonReader::State::parse(std::span<const std::byte> json) {
  const size_t needed = json.size() + simdjson::SIMDJSON_PADDING;
  if (padded.size() < needed) padded.resize(needed);
  if (!json.empty()) std::memcpy(padded.data(), json.data(), json.size());
  std::memset(padded.data() + json.size(), 0, simdjson::SIMDJSON_PADDING);
  element root;
  const auto error = parser.parse(padded.data(), json.size(), false).get(root);
  if (error == simdjson::SUCCESS) return root;
  return make_error(error == simdjson::MEMALLOC ? ErrorCode::kNoMemory : ErrorCode::kCorrupt,
                    fmt::format("json: {}", simdjson::error_message(error)));
}

Result<element> JsonReader::State::find(std::span<const std::byte> json, std::string_view path) {
  const element root = PENSTOCK_TRY(parse(json));
  const std::optional<element> found = walk(root, path);
  if (!found) return not_there(path);
  return *found;
}

JsonReader::JsonReader() : state_(std::make_unique<State>()) {}
JsonReader::~JsonReader() = default;

Result<int64_t> JsonReader::read_int(std::span<const std::byte> json, std::string_view path) {
  return to_int(PENSTOCK_TRY(state_->find(json, path)), path);
}

Result<double> JsonReader::read_float(std::span<const std::byte> json, std::string_view path) {
  return to_float(PENSTOCK_TRY(state_->find(json, path)), path);
}

Result<std::string> JsonReader::read_text(std::span<const std::byte> json, std::string_view path) {
  const element value = PENSTOCK_TRY(state_->find(json, path));
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return other_kind(path, "a text");
  return std::string(text);
}

Result<void> JsonReader::check(std::span<const std::byte> json) {
  PENSTOCK_TRY(state_->parse(json));
  return {};
}

}  // namespace penstock::decode
