#include "loader/layout.h"

#include <fmt/core.h>

#include <numeric>
#include <set>

namespace penstock::loader {

namespace {

constexpr uint64_t kAlignment = 128;

Error refuse(const Field& field, std::string_view why) {
  return make_error(ErrorCode::kInvalid, fmt::format("field '{}': {}", field.name, why));
}

bool fits_kind(const Field& field) {
  using decode::DType;
  switch (field.kind) {
    case FieldKind::kInt:
    case FieldKind::kTokens:
      return field.dtype == DType::kInt64 || field.dtype == DType::kInt32;
    case FieldKind::kFloat:
      return field.dtype == DType::kFloat32 || field.dtype == DType::kFloat64;
    default:
      return true;
  }
}

Result<void> check_field(const Field& field) {
  if (field.name.empty()) return refuse(field, "it has no name");
  if (field.from.empty()) return refuse(field, "say which extension it comes from");
  if (!fits_kind(field)) {
    return refuse(field, fmt::format("dtype {} does not fit: int64 or int32 for Int, float32 or "
                                     "float64 for Float",
                                     decode::dtype_name(field.dtype)));
  }
  const bool needs_shape = field.kind == FieldKind::kArray || field.kind == FieldKind::kTokens;
  if (needs_shape && field.shape.empty()) return refuse(field, "it needs a shape");
  if (field.kind == FieldKind::kImage) {
    const Result<void> checked = field.image.check();
    if (!checked.ok()) return checked.error().with_context(fmt::format("field '{}'", field.name));
  }
  return {};
}

}  // namespace

bool is_ragged(const Field& field) {
  return field.kind == FieldKind::kBytes || field.kind == FieldKind::kText ||
         field.kind == FieldKind::kJson;
}

size_t slot_bytes(const Field& field) {
  if (is_ragged(field)) return 0;
  if (field.kind == FieldKind::kImage) return field.image.output_bytes();
  return std::accumulate(field.shape.begin(), field.shape.end(), decode::dtype_bytes(field.dtype),
                         [](size_t product, uint64_t side) { return product * side; });
}

Result<void> check_fields(const std::vector<Field>& fields) {
  if (fields.empty()) return make_error(ErrorCode::kInvalid, "no fields: what is a batch to have?");
  std::set<std::string_view> names;
  for (const Field& field : fields) {
    PENSTOCK_TRY(check_field(field));
    if (!names.insert(field.name).second) return refuse(field, "there are two of that name");
  }
  return {};
}

Layout::Layout(const std::vector<Field>& fields, uint32_t batch_size) {
  const auto add = [this](uint64_t size) {
    const uint64_t at = bytes;
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  for (const Field& field : fields) {
    Place place;
    place.slot_bytes = loader::slot_bytes(field);
    if (is_ragged(field)) {
      has_ragged = true;
      place.offset = add(uint64_t{batch_size} * sizeof(int64_t));
      place.lengths = add(uint64_t{batch_size} * sizeof(int64_t));
    } else {
      place.offset = add(place.slot_bytes * batch_size);
    }
    columns.push_back(place);
  }
  mask = add(batch_size);
  samples = add(uint64_t{batch_size} * sizeof(uint64_t));
}

}  // namespace penstock::loader
