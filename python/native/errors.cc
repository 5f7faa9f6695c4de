#include "native/errors.h"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace penstock::python {

void raise(const Error& error) {
  const std::string code(error_code_name(error.code));
  const nb::object make = nb::module_::import_("penstock._errors").attr("make");
  const nb::object exception = make(code, error.detail, error.retryable, error.os_errno);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace penstock::python
