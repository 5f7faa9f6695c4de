#include <fmt/format.h>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

struct Row {
  DType type;
  std::string_view name;
  size_t bytes;
};
constexpr std::array kRows = {
    Row{DType::kBool, "bool", 1},         Row{DType::kUint8, "uint8", 1},
    Row{DType::kInt8, "int8", 1},         Row{DType::kInt16, "int16", 2},
    Row{DType::kUint16, "uint16", 2},     Row{DType::kInt32, "int32", 4},
    Row{DType::kUint32, "uint32", 4},     Row{DType::kInt64, "int64", 8},
    Row{DType::kUint64, "uint64", 8},     Row{DType::kFloat16, "float16", 2},
    Row{DType::kBfloat16, "bfloat16", 2}, Row{DType::kFloat32, "float32", 4},
    Row{DType::kFloat64, "float64", 8},
};

const Row* row_of(DType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::string_view dtype_name(DType type) {
  const Row* row = row_of(type);
  return row != nullptr ? row->name : "unknown";
}

size_t dtype_bytes(DType type) {
  const Row* row = row_of(type);
  return row != nullptr ? row->bytes : 0;
}

Result<DType> parse_dtype(std::string_view name) {
  std::string names;
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return make_error(ErrorCode::kInvalid, fmt::format("dtype \"{}\": expected {}", name, names));
}

}  // namespace penstock::decode
