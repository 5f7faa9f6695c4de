// tf.train.Example, by hand: Example{1: Features{1: entry{1: name, 2: Feature}}}, and a Feature is
// one of {1: bytes}, {2: floats}, {3: integers}, each a list in field 1.
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <set>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

using Bytes = std::span<const std::byte>;

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// `payload` is that of kBytes and the fixed ones; `value` that of kVarint.
struct Field {
  uint64_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;
  Bytes payload;
};

Error corrupt() {
  return make_error(ErrorCode::kCorrupt, "Example: it is not a serialized tf.train.Example");
}

Result<uint64_t> take_varint(Bytes& left) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (left.empty()) return corrupt();
    const auto byte = std::to_integer<uint64_t>(left.front());
    left = left.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return corrupt();
}

Result<Bytes> take_bytes(Bytes& left, uint64_t size) {
  if (size > left.size()) return corrupt();
  const Bytes taken = left.first(size);
  left = left.subspan(size);
  return taken;
}

// Groups, which nobody writes, are not known.
Result<Field> take_field(Bytes& left) {
  const uint64_t tag = PENSTOCK_TRY(take_varint(left));
  Field field{.number = tag >> 3, .wire = static_cast<Wire>(tag & 7), .value = 0, .payload = {}};
  if (field.number == 0) return corrupt();
  switch (field.wire) {
    case Wire::kVarint:
      field.value = PENSTOCK_TRY(take_varint(left));
      return field;
    case Wire::kFixed64:
      field.payload = PENSTOCK_TRY(take_bytes(left, 8));
      return field;
    case Wire::kBytes: {
      const uint64_t size = PENSTOCK_TRY(take_varint(left));
      field.payload = PENSTOCK_TRY(take_bytes(left, size));
      return field;
    }
    case Wire::kFixed32:
      field.payload = PENSTOCK_TRY(take_bytes(left, 4));
      return field;
  }
  return corrupt();
}

// Calls `visit` with the payload of every field `number` that has one.
template <typename Visit>
Result<void> each_message(Bytes message, uint64_t number, Visit visit) {
  while (!message.empty()) {
    const Field field = PENSTOCK_TRY(take_field(message));
    if (field.number == number && field.wire == Wire::kBytes) PENSTOCK_TRY(visit(field.payload));
  }
  return {};
}

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls `visit` with the name and the Feature of every entry.
template <typename Visit>
Result<void> each_entry(Bytes example, Visit visit) {
  return each_message(example, 1, [&](Bytes features) {
    return each_message(features, 1, [&](Bytes entry) -> Result<void> {
      std::string_view name;
      Bytes feature;
      while (!entry.empty()) {
        const Field field = PENSTOCK_TRY(take_field(entry));
        if (field.wire != Wire::kBytes) continue;
        if (field.number == 1) name = as_text(field.payload);
        if (field.number == 2) feature = field.payload;
      }
      return visit(name, feature);
    });
  });
}

Result<void> read_ints(Bytes list, std::vector<int64_t>& ints) {
  while (!list.empty()) {
    Field field = PENSTOCK_TRY(take_field(list));
    if (field.number != 1) continue;
    if (field.wire == Wire::kVarint) ints.push_back(static_cast<int64_t>(field.value));
    if (field.wire != Wire::kBytes) continue;
    while (!field.payload.empty()) {
      ints.push_back(static_cast<int64_t>(PENSTOCK_TRY(take_varint(field.payload))));
    }
  }
  return {};
}

Result<void> read_floats(Bytes list, std::vector<float>& floats) {
  while (!list.empty()) {
    const Field field = PENSTOCK_TRY(take_field(list));
    if (field.number != 1 || (field.wire != Wire::kFixed32 && field.wire != Wire::kBytes)) continue;
    if (field.payload.size() % sizeof(float) != 0) return corrupt();
    if (field.payload.empty()) continue;
    const size_t before = floats.size();
    floats.resize(before + field.payload.size() / sizeof(float));
    std::memcpy(floats.data() + before, field.payload.data(), field.payload.size());
  }
  return {};
}

Result<void> read_bytes(Bytes list, std::vector<Bytes>& bytes) {
  return each_message(list, 1, [&](Bytes value) -> Result<void> {
    bytes.push_back(value);
    return {};
  });
}

Result<void> read_list(const Field& list, ExampleFeature& feature) {
  switch (feature.kind) {
    case ExampleFeature::Kind::kBytes:
      return read_bytes(list.payload, feature.bytes);
    case ExampleFeature::Kind::kFloat:
      return read_floats(list.payload, feature.floats);
    case ExampleFeature::Kind::kInt64:
      return read_ints(list.payload, feature.ints);
  }
  return corrupt();
}

std::optional<ExampleFeature::Kind> kind_of(const Field& field) {
  if (field.wire != Wire::kBytes) return std::nullopt;
  switch (field.number) {
    case 1:
      return ExampleFeature::Kind::kBytes;
    case 2:
      return ExampleFeature::Kind::kFloat;
    case 3:
      return ExampleFeature::Kind::kInt64;
    default:
      return std::nullopt;
  }
}

// Lists of one kind are joined; one of another kind replaces what was there.
Result<ExampleFeature> read_feature(Bytes message) {
  ExampleFeature feature;
  while (!message.empty()) {
    const Field field = PENSTOCK_TRY(take_field(message));
    const std::optional<ExampleFeature::Kind> kind = kind_of(field);
    if (!kind) continue;
    if (*kind != feature.kind)
      feature = ExampleFeature{.kind = *kind, .bytes = {}, .ints = {}, .floats = {}};
    PENSTOCK_TRY(read_list(field, feature));
  }
  return feature;
}

}  // namespace

Result<ExampleFeature> read_example_feature(std::span<const std::byte> example,
                                            std::string_view name) {
  std::optional<Bytes> found;
  PENSTOCK_TRY(each_entry(example, [&](std::string_view entry, Bytes feature) -> Result<void> {
    if (entry == name) found = feature;
    return {};
  }));
  if (!found) {
    return make_error(ErrorCode::kNotFound, fmt::format("Example: no feature \"{}\"", name));
  }
  return read_feature(*found);
}

Result<std::vector<std::string>> example_feature_names(std::span<const std::byte> example) {
  std::set<std::string_view> names;
  PENSTOCK_TRY(each_entry(example, [&](std::string_view entry, Bytes) -> Result<void> {
    names.insert(entry);
    return {};
  }));
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace penstock::decode
