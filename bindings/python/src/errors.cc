// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace hvd::python {

void raise_status(hvd_status status, const hvd_error& error, const std::string& operation) {
  const py::object from_status =
      py::module_::import("horovod.common.exceptions").attr("from_status");
  const py::object label = operation.empty() ? py::none() : py::object(py::str(operation));
  const auto message = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      error.message, static_cast<Py_ssize_t>(std::char_traits<char>::length(error.message)),
      "replace"));
  const py::object exception = from_status(status, error.rank, error.sys_errno, message, label);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace hvd::python
