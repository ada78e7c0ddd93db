// SPDX-License-Identifier: Apache-2.0
// The extension horovod._hvd: the pybind11 floor. horovod/_floor/__init__.py describes the interface.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "context.h"
#include "operation.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

std::vector<std::tuple<std::string, std::string, std::string>> option_table() {
  std::vector<std::tuple<std::string, std::string, std::string>> table;
  for (size_t i = 0; hvd_option_name(i) != nullptr; ++i)
    table.emplace_back(hvd_option_name(i), hvd_option_default(i), hvd_option_help(i));
  return table;
}

uintptr_t pointer(py::handle array) {
  if (!py::isinstance<py::array>(array)) throw py::type_error("pointer: not a NumPy array");
  return reinterpret_cast<uintptr_t>(py::reinterpret_borrow<py::array>(array).data());
}

std::unique_ptr<Operation> submit(py::object self, int kind, bool grouped, py::handle inputs, py::handle outputs,
                                  py::handle name, uintptr_t set, hvd_reduce_op reduce_op, int32_t root,
                                  double prescale, double postscale, py::handle splits, py::object keep) {
  const Submission submission{kind, grouped, inputs, outputs, name, set, reduce_op, root, prescale, postscale, splits};
  return Context::submit(std::move(self), submission, std::move(keep));
}

void bind_context(py::module_& module) {
  py::class_<Context>(module, "Context")
      .def(py::init<int32_t, int32_t, py::object, int64_t, const Context::Options&, py::object>())
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
      .def("submit", &submit);
}

void bind_operation(py::module_& module) {
  py::class_<Operation>(module, "Operation")
      .def("wait", &Operation::wait, py::arg("timeout") = py::none())
      .def("poll", &Operation::poll)
      .def("output_count", &Operation::output_count)
      .def("output", &Operation::output)
      .def("received_splits", &Operation::received_splits)
      .def("last_joined_rank", &Operation::last_joined_rank)
      .def_property_readonly("key", &Operation::key)
      .def_property_readonly("queued", &Operation::queued);
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
  module.def("pointer", &pointer);
  module.def("sweep", [] { return Orphans::of_process().sweep(); });
  bind_context(module);
  bind_operation(module);
}
