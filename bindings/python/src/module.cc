// SPDX-License-Identifier: Apache-2.0
// The extension horovod._hvd: the pybind11 floor. horovod/_floor/__init__.py describes the interface.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "context.h"
#include "gradients.h"
#include "operation_type.h"
#include "submit.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

std::vector<std::tuple<std::string, std::string, std::string>> option_table() {
  std::vector<std::tuple<std::string, std::string, std::string>> table;
  for (size_t i = 0; hvd_option_name(i) != nullptr; ++i)
    table.emplace_back(hvd_option_name(i), hvd_option_default(i), hvd_option_help(i));
  return table;
}

// (address, dtype number, shape) of an array that the library can use as it is, else None: another type, gaps, foreign
// byte order, or a dtype that NumPy itself does not number.
py::object describe(py::handle object, const std::array<int, 32>& codes) {
  const auto& numpy = py::detail::npy_api::get();
  if (Py_TYPE(object.ptr()) != numpy.PyArray_Type_) return py::none();
  const auto array = py::reinterpret_borrow<py::array>(object);
  if ((array.flags() & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_) == 0) return py::none();
  const py::dtype dtype = array.dtype();
  const int number = dtype.num();
  if (number < 0 || number >= static_cast<int>(codes.size()) || dtype.byteorder() == '>') return py::none();
  const int code = codes[static_cast<size_t>(number)];
  if (code < 0) return py::none();
  py::tuple shape(array.ndim());
  for (py::ssize_t d = 0; d < array.ndim(); ++d) shape[static_cast<size_t>(d)] = array.shape(d);
  return py::make_tuple(reinterpret_cast<uintptr_t>(array.data()), code, std::move(shape));
}

// A function like `describe` for a dict from NumPy dtypes to the numbers of the library.
py::object make_describe(const py::dict& dtypes) {
  std::array<int, 32> codes{};
  codes.fill(-1);
  for (const auto& [dtype, code] : dtypes)
    codes.at(static_cast<size_t>(py::reinterpret_borrow<py::dtype>(dtype).num())) = code.cast<int>();
  return py::cpp_function([codes](py::handle object) { return describe(object, codes); });
}

void bind_context(py::module_& module) {
  py::class_<Context> context(module, "Context");
  add_submit(context);
  context.def(py::init<int32_t, int32_t, py::object, int64_t, const Context::Options&, py::object>())
      .def_property_readonly("address", &Context::address)
      .def("free", &Context::free)
      .def("shutdown", &Context::shutdown)
      .def("status", &Context::status)
      .def("topology", &Context::topology)
      .def("set_create", &Context::set_create)
      .def("set_find", &Context::set_find)
      .def("set_ids", &Context::set_ids)
      .def("set_ranks", &Context::set_ranks)
      .def("set_destroy", &Context::set_destroy)
      .def("set_free", &Context::set_free)
      .def("set_id", &Context::set_id)
      .def("option_get", &Context::option_get)
      .def("option_set", &Context::option_set)
      .def("metrics", &Context::metrics)
      .def("completions_fd", &Context::completions_fd)
      .def("completions_pop", &Context::completions_pop)
      .def("prepare", &Context::prepare)
      .def("start", &Context::start_burst);
}

void bind_burst(py::module_& module) {
  py::class_<Prepared>(module, "Prepared");
  py::class_<Burst>(module, "Burst").def("wait", &Burst::wait);
}

}  // namespace
}  // namespace hvd::python

PYBIND11_MODULE(_hvd, module) {
  using namespace hvd::python;
  module.doc() = "The C++ floor of the package; private";
  module.attr("NAME") = "pybind11";
  module.def("version_string", [] { return hvd_version_string(); });
  module.def("has_feature", [](const std::string& name) { return hvd_has_feature(name.c_str()) != 0; });
  module.def("option_table", &option_table);
  module.def("make_describe", &make_describe);
  module.def("sweep", [] { return Orphans::of_process().sweep(); });
  bind_context(module);
  add_operation_type(module);
  add_gradient_types(module);
  bind_burst(module);
}
