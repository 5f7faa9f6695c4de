#include "checkpoint/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/log.h"
#include "checkpoint/name_set.h"
#include "checkpoint/safetensors.h"
#include "penstock/frame.h"

namespace penstock::checkpoint {

namespace {

// Below it a second file costs more than it brings.
constexpr uint64_t kFileBytesMin = 64 * kMiB;
constexpr uint64_t kFileBytesMinIncremental = 16 * kMiB;
constexpr uint32_t kFilesMax = 4;
constexpr uint32_t kFilesMaxIncremental = 256;

uint64_t file_count(uint64_t bytes, const PlanOptions& options) {
  const uint64_t least = options.incremental ? kFileBytesMinIncremental : kFileBytesMin;
  const uint32_t usual = options.incremental ? kFilesMaxIncremental : kFilesMax;
  return std::clamp<uint64_t>(bytes / least, 1, options.files_max == 0 ? usual : options.files_max);
}

Result<std::vector<uint64_t>> check_tensors(const std::vector<Tensor>& tensors) {
  NameSet names;
  std::vector<uint64_t> bytes;
  bytes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__" || !is_utf8(tensor.name)) {
      return make_error(ErrorCode::kInvalid, fmt::format("'{}' cannot be the name of a tensor",
                                                         json_escape(tensor.name)));
    }
    if (!names.insert(tensor.name)) {
      return make_error(ErrorCode::kInvalid, fmt::format("tensor '{}' comes twice", tensor.name));
    }
    const Result<uint64_t> size = tensor_bytes(tensor.dtype, tensor.shape);
    if (!size.ok()) return size.error().with_context(fmt::format("tensor '{}'", tensor.name));
    if (*size > 0 && tensor.data == nullptr) {
      return make_error(ErrorCode::kInvalid, fmt::format("tensor '{}' has no data", tensor.name));
    }
    bytes.push_back(*size);
  }
  return bytes;
}

// By size of element: then each is aligned to its own, since nothing may lie between them.
std::vector<size_t> placing_order(const std::vector<Tensor>& tensors) {
  std::vector<uint32_t> bits;
  bits.reserve(tensors.size());
  for (const Tensor& tensor : tensors) bits.push_back(dtype_bits(tensor.dtype));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return bits[i]; });
  return order;
}

class FileBuilder {
 public:
  void add(Tensor&& tensor, uint64_t bytes) {
    headers_.push_back({std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape),
                        data_bytes_, data_bytes_ + bytes});
    data_.push_back({tensor.data, tensor.device});
    data_bytes_ += bytes;
  }
  uint64_t data_bytes() const { return data_bytes_; }

  FilePlan finish() && {
    FilePlan file;
    file.header = make_header(headers_, {{"format", "pt"}});
    file.entry.data_start = file.header.size();
    file.entry.bytes = file.header.size() + data_bytes_;
    file.entry.header_hash = codec::hash_bytes(std::as_bytes(std::span(file.header)));
    add_origins(file);
    return file;
  }

 private:
  void add_origins(FilePlan& file) {
    const uint64_t start = file.header.size();
    const auto* header = reinterpret_cast<const std::byte*>(file.header.data());
    file.origins.push_back({header, 0, start, -1});
    file.entry.tensors.reserve(headers_.size());
    for (size_t i = 0; i < headers_.size(); ++i) {
      HeaderTensor& tensor = headers_[i];
      const uint64_t bytes = tensor.end - tensor.begin;
      if (bytes > 0) {
        const auto& [data, device] = data_[i];
        file.origins.push_back({data, start + tensor.begin, start + tensor.end, device});
      }
      TensorInfo& info = file.entry.tensors.emplace_back();
      info.name = std::move(tensor.name);
      info.dtype = std::move(tensor.dtype);
      info.shape = std::move(tensor.shape);
      info.bytes = bytes;
      info.offset = start + tensor.begin;
    }
  }

  std::vector<HeaderTensor> headers_;
  std::vector<std::pair<const std::byte*, int32_t>> data_;  // And where.
  uint64_t data_bytes_ = 0;
};

void add_pieces(Plan& plan) {
  uint64_t most = 0;
  for (const FilePlan& file : plan.files) most = std::max(most, file.pieces());
  for (uint64_t i = 0; i < most; ++i) {
    for (size_t f = 0; f < plan.files.size(); ++f) {
      const uint64_t offset = i * kPieceBytes;
      const uint64_t bytes = plan.files[f].entry.bytes;
      if (offset < bytes) plan.pieces.push_back({f, offset, std::min(kPieceBytes, bytes - offset)});
    }
  }
}

}  // namespace

Result<Plan> make_plan(std::vector<Tensor> tensors, const PlanOptions& options) {
  const std::vector<uint64_t> bytes = PENSTOCK_TRY(check_tensors(tensors));
  const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  const uint64_t count = file_count(total, options);
  const uint64_t share = std::max<uint64_t>(total / count, 1);
  Plan plan;
  plan.tensors = tensors.size();
  plan.on_device = std::ranges::any_of(tensors, [](const Tensor& t) { return t.device >= 0; });
  plan.files.reserve(count);
  FileBuilder builder;
  uint64_t placed = 0;
  for (const size_t i : placing_order(tensors)) {
    // A tensor belongs to the file whose share its middle lies in; what one file has too much, another
    // has less.
    const size_t file = plan.files.size();
    if (file + 1 < count && placed > 0 && placed + bytes[i] / 2 >= share * (file + 1)) {
      plan.files.push_back(std::move(builder).finish());
      builder = {};
    }
    builder.add(std::move(tensors[i]), bytes[i]);
    placed += bytes[i];
  }
  plan.files.push_back(std::move(builder).finish());
  for (const FilePlan& file : plan.files) plan.bytes += file.entry.bytes;
  add_pieces(plan);
  return plan;
}

}  // namespace penstock::checkpoint
