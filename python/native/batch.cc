#include "native/batch.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace penstock::python {

namespace {

nb::dlpack::dtype numpy_type(decode::DType type) {
  using decode::DType;
  switch (type) {
    case DType::kBool:
      return nb::dtype<bool>();
    case DType::kUint8:
      return nb::dtype<uint8_t>();
    case DType::kInt8:
      return nb::dtype<int8_t>();
    case DType::kInt16:
      return nb::dtype<int16_t>();
    case DType::kUint16:
    case DType::kBfloat16:
      return nb::dtype<uint16_t>();
    case DType::kInt32:
      return nb::dtype<int32_t>();
    case DType::kUint32:
      return nb::dtype<uint32_t>();
    case DType::kInt64:
      return nb::dtype<int64_t>();
    case DType::kUint64:
      return nb::dtype<uint64_t>();
    case DType::kFloat16:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case DType::kFloat32:
      return nb::dtype<float>();
    case DType::kFloat64:
      return nb::dtype<double>();
  }
  return nb::dtype<uint8_t>();
}

const loader::Column& column_at(const PyBatch& self, size_t index) {
  if (index >= self.batch->columns().size()) throw nb::index_error("no such column");
  return self.batch->columns()[index];
}

template <typename T>
nb::object view(const PyBatch& self, std::span<const T> numbers, decode::DType dtype) {
  return as_array(reinterpret_cast<const std::byte*>(numbers.data()), dtype, {numbers.size()},
                  self.batch);
}

}  // namespace

nb::object as_array(const std::byte* data, decode::DType dtype, const std::vector<uint64_t>& shape,
                    std::shared_ptr<const void> owner) {
  auto* const held = new std::shared_ptr<const void>(std::move(owner));
  const nb::capsule keep(held, [](void* memory) noexcept {
    delete static_cast<std::shared_ptr<const void>*>(memory);
  });
  const std::vector<size_t> sides(shape.begin(), shape.end());
  const nb::ndarray<nb::numpy> array(const_cast<std::byte*>(data), sides.size(), sides.data(), keep,
                                     nullptr, numpy_type(dtype));
  return nb::cast(array);
}

void bind_batch(nb::module_& module) {
  nb::class_<PyBatch>(module, "Batch")
      .def_prop_ro("epoch", [](const PyBatch& self) { return self.batch->epoch(); })
      .def_prop_ro("step", [](const PyBatch& self) { return self.batch->step(); })
      .def_prop_ro("size", [](const PyBatch& self) { return self.batch->size(); })
      .def_prop_ro("pinned", [](const PyBatch& self) { return self.batch->pinned(); })
      .def("dense",
           [](const PyBatch& self, size_t index) {
             const loader::Column& column = column_at(self, index);
             return as_array(column.data.data(), column.dtype, column.shape, self.batch);
           })
      .def("ragged",
           [](const PyBatch& self, size_t index) {
             const loader::Column& column = column_at(self, index);
             return nb::make_tuple(as_array(column.data.data(), decode::DType::kUint8,
                                            {column.data.size()}, self.batch),
                                   view(self, column.starts, decode::DType::kInt64),
                                   view(self, column.lengths, decode::DType::kInt64));
           })
      .def("mask",
           [](const PyBatch& self) {
             return as_array(reinterpret_cast<const std::byte*>(self.batch->mask().data()),
                             decode::DType::kBool, {self.batch->size()}, self.batch);
           })
      .def("samples",
           [](const PyBatch& self) {
             return view(self, self.batch->samples(), decode::DType::kUint64);
           })
      .def("source", [](const PyBatch& self, uint32_t slot) { return self.batch->source(slot); })
      .def("keys",
           [](const PyBatch& self) {
             nb::list keys;
             for (uint32_t i = 0; i < self.batch->size(); ++i) {
               const std::string key = self.batch->key(i);
               keys.append(nb::steal(PyUnicode_DecodeFSDefaultAndSize(
                   key.data(), static_cast<Py_ssize_t>(key.size()))));
             }
             return keys;
           })
      .def("urls", [](const PyBatch& self) {
        nb::list urls;
        for (uint32_t i = 0; i < self.batch->size(); ++i) {
          const std::string url = self.batch->url(i);
          urls.append(nb::steal(
              PyUnicode_DecodeFSDefaultAndSize(url.data(), static_cast<Py_ssize_t>(url.size()))));
        }
        return urls;
      });
}

}  // namespace penstock::python
