// SPDX-License-Identifier: Apache-2.0
// The extension horovod._hvd: the pybind11 layer. horovod/_native/__init__.py describes the
// interface.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "context.h"
#include "operation_type.h"
#include "own_arrays.h"
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

void bind_context(py::module_& module) {
  py::class_<Context> context(module, "Context");
  add_submit(context);
  context
      .def(py::init<int32_t, int32_t, py::object, int64_t, const Context::Options&, py::object>())
      .def_property_readonly("address", &Context::address)
      .def("free", &Context::free)
      .def("shutdown", &Context::shutdown)
      .def("status", &Context::status)
      .def("topology", &Context::topology)
      .def("membership", &Context::membership)
      .def("leave", &Context::leave)
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
      .def("histograms", &Context::histograms)
      .def("records", &Context::records)
      .def("record_arrivals", &Context::record_arrivals)
      .def("timeline_start", &Context::timeline_start)
      .def("timeline_stop", &Context::timeline_stop)
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
  module.doc() = "The C++ native layer of the package; private";
  module.attr("NAME") = "pybind11";
  module.def("version_string", [] { return hvd_version_string(); });
  module.def("has_feature",
             [](const std::string& name) { return hvd_has_feature(name.c_str()) != 0; });
  module.def("option_table", &option_table);
  module.def("metric_help", [](const std::string& name) { return hvd_metric_help(name.c_str()); });
  module.def("make_describe", &make_describe);
  module.def("read_arrays_of", &read_arrays_of);
  module.def("sweep", [] { return Orphans::of_process().sweep(); });
  bind_context(module);
  add_operation_type(module);
  bind_burst(module);
}
