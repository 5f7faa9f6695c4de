// Where the memory of a tensor is, and of what kind it is, by one call: the part of DLPack's table of
// functions (`__dlpack_c_exchange_api__` of a class of tensors) that this takes. torch has had it since
// 2.10; asking it for one attribute after the other takes ten times as long.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>

namespace penstock::python {

// As DLPack 1 lays it out.
struct DlTensor {
  void* data = nullptr;
  int32_t device_type = 0;
  int32_t device_id = 0;
  int32_t dimensions = 0;
  uint8_t type_code = 0;
  uint8_t type_bits = 0;
  uint16_t type_lanes = 0;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // In elements.
  uint64_t byte_offset = 0;
};

inline constexpr int32_t kDlCpu = 1;
inline constexpr int32_t kDlCuda = 2;

// Fills it with what `tensor` is, without waiting for work that changes it; shape and strides belong to
// the tensor. Not 0: a Python error is set, and it is a tensor that cannot be described so.
using DlLook = int (*)(void* tensor, DlTensor* out);

// Null where this class has no such function.
DlLook dl_look(const nanobind::handle& type);

// The name that safetensors has for it; empty when it has none, or is complex, which may be seen through
// a bit that the memory does not have.
std::string_view dtype_name(const DlTensor& tensor);

// Rows after rows, without gaps.
bool is_contiguous(const DlTensor& tensor);

}  // namespace penstock::python
