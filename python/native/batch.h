#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>

#include "penstock/loader.h"

namespace penstock::python {

// A batch as Python holds it: arrays are views of its memory, and each keeps it alive.
struct PyBatch {
  std::shared_ptr<const loader::Batch> batch;
};

// A numpy array over `data`, which `owner` keeps. bfloat16, which numpy has not, as uint16.
nanobind::object as_array(const std::byte* data, decode::DType dtype,
                          const std::vector<uint64_t>& shape, std::shared_ptr<const void> owner);

void bind_batch(nanobind::module_& module);

}  // namespace penstock::python
