#include "native/dlpack.h"

#include <array>

namespace nb = nanobind;

namespace penstock::python {

namespace {

// As DLPack 1 lays it out.
struct Exchange {
  uint32_t major = 0;
  uint32_t minor = 0;
  const Exchange* older = nullptr;
  void* allocate = nullptr;
  void* to_managed = nullptr;
  void* from_managed = nullptr;
  DlLook look = nullptr;
  void* current_stream = nullptr;
};
constexpr uint32_t kMajor = 1;

struct Named {
  uint8_t code;
  uint8_t bits;
  std::string_view name;
};
constexpr std::array kNames = {
    Named{2, 32, "F32"}, Named{4, 16, "BF16"},    Named{2, 16, "F16"},    Named{2, 64, "F64"},
    Named{0, 64, "I64"}, Named{0, 32, "I32"},     Named{0, 16, "I16"},    Named{0, 8, "I8"},
    Named{1, 8, "U8"},   Named{1, 16, "U16"},     Named{1, 32, "U32"},    Named{1, 64, "U64"},
    Named{6, 8, "BOOL"}, Named{10, 8, "F8_E4M3"}, Named{12, 8, "F8_E5M2"}};

}  // namespace

DlLook dl_look(const nb::handle& type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* table =
      static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table != nullptr && table->major > kMajor) table = table->older;
  return table != nullptr && table->major == kMajor ? table->look : nullptr;
}

std::string_view dtype_name(const DlTensor& tensor) {
  if (tensor.type_lanes != 1) return {};
  for (const Named& one : kNames) {
    if (one.code == tensor.type_code && one.bits == tensor.type_bits) return one.name;
  }
  return {};
}

bool is_contiguous(const DlTensor& tensor) {
  int64_t expected = 1;
  bool follows = true;
  for (int32_t i = tensor.dimensions - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1) follows &= tensor.strides[i] == expected;
    expected *= tensor.shape[i];
  }
  return follows;
}

}  // namespace penstock::python
