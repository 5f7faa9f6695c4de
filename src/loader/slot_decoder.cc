#include "loader/slot_decoder.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstring>

#include "base/log.h"
#include "loader/permutation.h"
#include "loader/token_dataset.h"

namespace penstock::loader {

namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
void put(std::span<std::byte> out, T value) {
  std::memcpy(out.data(), &value, sizeof value);
}

Result<void> put_int(const Field& field, int64_t value, std::span<std::byte> out) {
  if (field.dtype == decode::DType::kInt64) {
    put(out, value);
    return {};
  }
  if (value < INT32_MIN || value > INT32_MAX)
    return make_error(ErrorCode::kInvalid, fmt::format("{} does not fit int32", value));
  put(out, static_cast<int32_t>(value));
  return {};
}

void put_float(const Field& field, double value, std::span<std::byte> out) {
  if (field.dtype == decode::DType::kFloat64) return put(out, value);
  put(out, static_cast<float>(value));
}

Result<void> put_array(const Field& field, const decode::NpyView& view, std::span<std::byte> out) {
  if (view.dtype != field.dtype || view.shape != field.shape) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("an array of {} {} where {} {} was expected", decode::dtype_name(view.dtype),
                    view.shape, decode::dtype_name(field.dtype), field.shape));
  }
  std::memcpy(out.data(), view.data.data(), out.size());
  return {};
}

Result<void> put_tokens(const data::Dataset& dataset, const Field& field,
                        std::span<const std::byte> bytes, std::span<std::byte> out) {
  const auto* const tokens = dynamic_cast<const TokenDataset*>(&dataset);
  if (tokens == nullptr) return make_error(ErrorCode::kInvalid, "the source has no tokens");
  if (field.dtype == decode::DType::kInt32) {
    return widen_tokens(tokens->type(), bytes,
                        std::span(reinterpret_cast<int32_t*>(out.data()), out.size() / 4));
  }
  return widen_tokens(tokens->type(), bytes,
                      std::span(reinterpret_cast<int64_t*>(out.data()), out.size() / 8));
}

bool is_missing(const Result<decode::ExampleFeature>& found) {
  return !found.ok() && found.error().code == ErrorCode::kNotFound;
}

Error missing(const Field& field) {
  return make_error(ErrorCode::kNotFound,
                    fmt::format("the sample has no '{}'", fmt::join(field.from, "' or '")));
}

// The same, with what it has instead.
Error missing(const Field& field, const data::SamplePlace& place) {
  Error error = missing(field);
  std::string others;
  for (const data::Member& member : place.members) {
    others += others.empty() ? "; it has '" : "', '";
    others += place.index->fields()[member.field];
  }
  if (!others.empty()) error.detail += others + "'";
  return error;
}

}  // namespace

Result<void> SlotDecoder::decode(BatchWork& batch, uint32_t slot) {
  if (batch.dataset(slot).format() == data::Format::kTfRecord) return decode_records(batch, slot);
  for (size_t i = 0; i < batch.fields().size(); ++i) {
    const Field& field = batch.fields()[i];
    const BatchWork::FieldPlace place = batch.place(slot, i);
    const data::Shard& shard = batch.dataset(slot).shards()[batch.sample(slot).shard];
    if (place.at == BatchWork::FieldPlace::kMissing) {
      if (field.kind == FieldKind::kTokens && batch.reads_tokens) {
        PENSTOCK_TRY(read_tokens(batch, slot, i));
        continue;
      }
      const bool is_label = field.kind == FieldKind::kInt && shard.label >= 0;
      if (!is_label) return missing(field, batch.sample(slot));
      PENSTOCK_TRY(put_int(field, shard.label, batch.dense_slot(i, slot)));
      continue;
    }
    const Result<void> decoded =
        decode_field(batch, slot, i, batch.raw().subspan(place.at, place.size));
    if (!decoded.ok()) return decoded.error().with_context(fmt::format("field '{}'", field.name));
  }
  return {};
}

Result<void> SlotDecoder::read_tokens(BatchWork& batch, uint32_t slot, size_t field) {
  auto* const tokens = dynamic_cast<TokenDataset*>(&batch.dataset(slot));
  if (tokens == nullptr) return missing(batch.fields()[field]);
  const uint64_t sample = batch.order().slots[slot].sample;
  // A copy first, also of memory: it has more of what lies anywhere on its way at once than a loop that
  // widens.
  tokens_.resize(tokens->sample_bytes());
  PENSTOCK_TRY(tokens->read_sample(sample, tokens_));
  return decode_field(batch, slot, field, tokens_);
}

Result<void> SlotDecoder::decode_field(BatchWork& batch, uint32_t slot, size_t field,
                                       std::span<const std::byte> bytes) {
  const Field& spec = batch.fields()[field];
  switch (spec.kind) {
    case FieldKind::kImage:
      return images_.decode(bytes, spec.image, mix(batch.order().slots[slot].random, field),
                            batch.dense_slot(field, slot));
    case FieldKind::kInt:
      return decode_int(spec, bytes, batch.dense_slot(field, slot));
    case FieldKind::kFloat:
      return decode_float(spec, bytes, batch.dense_slot(field, slot));
    case FieldKind::kArray:
      return put_array(spec, PENSTOCK_TRY(decode::parse_npy(bytes)), batch.dense_slot(field, slot));
    case FieldKind::kBytes:
      batch.set_ragged(field, slot, bytes);
      return {};
    case FieldKind::kTokens:
      return put_tokens(batch.dataset(slot), spec, bytes, batch.dense_slot(field, slot));
    case FieldKind::kText:
    case FieldKind::kJson:
      return decode_text(batch, slot, field, bytes);
  }
  return {};
}

Result<void> SlotDecoder::decode_int(const Field& field, std::span<const std::byte> bytes,
                                     std::span<std::byte> out) {
  const int64_t value = field.path.empty() ? PENSTOCK_TRY(decode::parse_int(as_text(bytes)))
                                           : PENSTOCK_TRY(json_.read_int(bytes, field.path));
  return put_int(field, value, out);
}

Result<void> SlotDecoder::decode_float(const Field& field, std::span<const std::byte> bytes,
                                       std::span<std::byte> out) {
  const double value = field.path.empty() ? PENSTOCK_TRY(decode::parse_float(as_text(bytes)))
                                          : PENSTOCK_TRY(json_.read_float(bytes, field.path));
  put_float(field, value, out);
  return {};
}

Result<void> SlotDecoder::decode_text(BatchWork& batch, uint32_t slot, size_t field,
                                      std::span<const std::byte> bytes) {
  const Field& spec = batch.fields()[field];
  if (!spec.path.empty()) {
    // Whoever delivers it takes it out of the document: here is no room for what is not in the file.
    PENSTOCK_TRY(json_.read_text(bytes, spec.path));
  } else if (spec.kind == FieldKind::kJson) {
    PENSTOCK_TRY(json_.check(bytes));
  } else if (!is_utf8(as_text(bytes))) {
    return make_error(ErrorCode::kCorrupt, "not UTF-8: read it as Bytes");
  }
  batch.set_ragged(field, slot, bytes);
  return {};
}

Result<void> SlotDecoder::decode_records(BatchWork& batch, uint32_t slot) {
  const BatchWork::FieldPlace place = batch.place(slot, 0);
  if (place.at == BatchWork::FieldPlace::kMissing) return missing(batch.fields()[0]);
  const std::span<const std::byte> record =
      PENSTOCK_TRY(data::verify_record(batch.raw().subspan(place.at, place.size)));
  for (size_t i = 0; i < batch.fields().size(); ++i) {
    const Field& field = batch.fields()[i];
    const bool whole = field.from.front() == "tfrecord";
    const Result<void> decoded =
        whole ? decode_field(batch, slot, i, record) : decode_feature(batch, slot, i, record);
    if (!decoded.ok()) return decoded.error().with_context(fmt::format("field '{}'", field.name));
  }
  return {};
}

Result<void> SlotDecoder::decode_feature(BatchWork& batch, uint32_t slot, size_t field,
                                         std::span<const std::byte> record) {
  using Kind = decode::ExampleFeature::Kind;
  const Field& spec = batch.fields()[field];
  Result<decode::ExampleFeature> found = decode::read_example_feature(record, spec.from.front());
  for (size_t i = 1; i < spec.from.size() && is_missing(found); ++i)
    found = decode::read_example_feature(record, spec.from[i]);
  if (!found.ok()) return found.error();
  if (found->kind == Kind::kBytes && found->bytes.size() == 1)
    return decode_field(batch, slot, field, found->bytes.front());
  const std::span<std::byte> out =
      is_ragged(spec) ? std::span<std::byte>() : batch.dense_slot(field, slot);
  if (spec.kind == FieldKind::kInt && found->ints.size() == 1)
    return put_int(spec, found->ints.front(), out);
  if (spec.kind == FieldKind::kFloat && found->floats.size() == 1) {
    put_float(spec, static_cast<double>(found->floats.front()), out);
    return {};
  }
  const auto copy_all = [&](const auto& values) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    if (bytes.size() != out.size()) return false;
    std::memcpy(out.data(), bytes.data(), out.size());
    return true;
  };
  const bool array = spec.kind == FieldKind::kArray;
  if (array && spec.dtype == decode::DType::kInt64 && copy_all(found->ints)) return {};
  if (array && spec.dtype == decode::DType::kFloat32 && copy_all(found->floats)) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("feature '{}' has {} bytes, {} int64 and {} float values, which is "
                                "not what this field takes",
                                spec.from.front(), found->bytes.size(), found->ints.size(),
                                found->floats.size()));
}

}  // namespace penstock::loader
