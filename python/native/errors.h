// Errors become exceptions here, and nowhere else.
#pragma once

#include <nanobind/nanobind.h>

#include "penstock/result.h"

namespace penstock::python {

// Raises the exception of penstock._errors that stands for its code.
[[noreturn]] void raise(const Error& error);

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}
inline void unwrap(const Result<void>& result) {
  if (!result.ok()) raise(result.error());
}

}  // namespace penstock::python
