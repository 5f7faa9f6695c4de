#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/append_number.h"
#include "base/log.h"

namespace penstock::checkpoint {

namespace {

struct DtypeSize {
  std::string_view name;
  uint32_t bits;
};
constexpr DtypeSize kDtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

constexpr size_t kTensorTextBytes = 128;  // About.

void append_tensor(std::string& json, const HeaderTensor& tensor) {
  json += ",\"";
  append_json_escaped(json, tensor.name);
  json.append("\":{\"dtype\":\"").append(tensor.dtype).append("\",\"shape\":[");
  append_numbers(json, tensor.shape);
  json += "],\"data_offsets\":[";
  append_number(json, tensor.begin);
  json += ',';
  append_number(json, tensor.end);
  json += "]}";
}

Error not_safetensors(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("no safetensors header: {}", what));
}

Result<std::vector<uint64_t>> numbers_of(const nlohmann::json& list) {
  if (!list.is_array()) return not_safetensors("a list of numbers is missing");
  std::vector<uint64_t> numbers;
  numbers.reserve(list.size());
  for (const nlohmann::json& number : list) {
    if (!number.is_number_unsigned()) return not_safetensors("a number is none, or below 0");
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

Result<HeaderTensor> parse_tensor(const std::string& name, const nlohmann::json& value) {
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return not_safetensors(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", name));
  }
  HeaderTensor tensor;
  tensor.name = name;
  tensor.dtype = value["dtype"].get<std::string>();
  tensor.shape = PENSTOCK_TRY(numbers_of(value["shape"]));
  const std::vector<uint64_t> offsets = PENSTOCK_TRY(numbers_of(value["data_offsets"]));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return not_safetensors(fmt::format("tensor '{}' has no place", name));
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const Result<uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes.ok() || *bytes != tensor.end - tensor.begin) {
    return not_safetensors(fmt::format("tensor '{}' has a place of the wrong size", name));
  }
  return tensor;
}

Result<void> parse_metadata(const nlohmann::json& value, Header& header) {
  if (!value.is_object()) return not_safetensors("__metadata__ is no object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return not_safetensors("__metadata__ holds more than strings");
    header.metadata[key] = text.get<std::string>();
  }
  return {};
}

}  // namespace

uint32_t dtype_bits(std::string_view dtype) {
  for (const DtypeSize& one : kDtypes) {
    if (one.name == dtype) return one.bits;
  }
  return 0;
}

Result<uint64_t> tensor_bytes(std::string_view dtype, std::span<const uint64_t> shape) {
  const uint32_t bits = dtype_bits(dtype);
  if (bits == 0) {
    return make_error(ErrorCode::kInvalid, fmt::format("safetensors has no dtype '{}'", dtype));
  }
  if (std::ranges::find(shape, 0u) != shape.end()) return uint64_t{0};
  uint64_t total = bits;
  for (const uint64_t side : shape) {
    if (__builtin_mul_overflow(total, side, &total)) {
      return make_error(ErrorCode::kInvalid, "a shape that no memory holds");
    }
  }
  if (total % 8 != 0) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} elements of {} are no whole bytes", total / bits, dtype));
  }
  return total / 8;
}

std::string make_header(std::span<const HeaderTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text(sizeof(uint64_t), '\0');
  text += "{\"__metadata__\":{";
  bool first = true;
  for (const auto& [key, value] : metadata) {
    fmt::format_to(std::back_inserter(text), "{}\"{}\":\"{}\"", first ? "" : ",", json_escape(key),
                   json_escape(value));
    first = false;
  }
  text += "}";
  text.reserve(text.size() + kTensorTextBytes * tensors.size());
  for (const HeaderTensor& tensor : tensors) append_tensor(text, tensor);
  text += "}";
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  const uint64_t json_bytes = text.size() - sizeof(uint64_t);
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(text.data(), &json_bytes, sizeof json_bytes);
  return text;
}

Result<Header> parse_header(std::string_view json, uint64_t file_bytes) {
  if (json.size() > kHeaderBytesMax) return not_safetensors("it is too long");
  if (json.empty() || json.front() != '{') return not_safetensors("it does not begin with {");
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object()) return not_safetensors("it is no JSON");
  Header header;
  header.data_start = sizeof(uint64_t) + json.size();
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      PENSTOCK_TRY(parse_metadata(value, header));
    } else {
      header.tensors.push_back(PENSTOCK_TRY(parse_tensor(name, value)));
    }
  }
  std::ranges::sort(header.tensors, [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const HeaderTensor& tensor : header.tensors) {
    if (tensor.begin != end) return not_safetensors("tensors leave a gap, or overlap");
    end = tensor.end;
  }
  if (file_bytes - std::min(file_bytes, header.data_start) != end ||
      file_bytes < header.data_start) {
    return not_safetensors(
        fmt::format("the file has {} bytes, not {}", file_bytes, header.data_start + end));
  }
  return header;
}

}  // namespace penstock::checkpoint
