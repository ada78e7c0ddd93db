// SPDX-License-Identifier: Apache-2.0
#include "operation_type.h"

#include <pybind11/stl.h>

#include <array>
#include <new>
#include <utility>

#include "native.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

struct Object {
  PyObject_HEAD Operation operation;
};

PyTypeObject* type_of_operations = nullptr;  // since the module was made; never freed

Operation& of(PyObject* self) { return reinterpret_cast<Object*>(self)->operation; }

void destroy(PyObject* self) {
  // dropping buffers can run any Python code, also while an exception is on its way
  const py::error_scope kept;
  PyTypeObject* type = Py_TYPE(self);
  of(self).~Operation();
  type->tp_free(self);
  Py_DECREF(type);
}

// The one argument that may be given by position or as `timeout`; None without.
py::handle timeout_of(PyObject* const* arguments, Py_ssize_t given, PyObject* names) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (given + named > 1) throw py::type_error("wait() takes one argument, timeout");
  if (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "timeout") != 0)
    throw py::type_error("wait() has no other argument than timeout");
  return given + named == 0 ? py::handle(Py_None) : py::handle(arguments[0]);
}

PyObject* wait(PyObject* self, PyObject* const* arguments, Py_ssize_t given, PyObject* names) {
  return guarded(
      [&] { return PyBool_FromLong(of(self).wait(timeout_of(arguments, given, names))); });
}

PyObject* poll(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(of(self).poll()); });
}

PyObject* output_count(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromSize_t(of(self).output_count()); });
}

PyObject* output(PyObject* self, PyObject* index) {
  return guarded([&] {
    const size_t number = PyLong_AsSize_t(index);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return of(self).output(number).release().ptr();
  });
}

PyObject* received_splits(PyObject* self, PyObject*) {
  return guarded([&] { return py::cast(of(self).received_splits()).release().ptr(); });
}

PyObject* last_joined_rank(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLong(of(self).last_joined_rank()); });
}

PyObject* key(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromSize_t(of(self).key()); });
}

PyObject* queued(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(of(self).queued()); });
}

}  // namespace

void add_operation_type(py::module_& module) {
  static std::array<PyMethodDef, 7> methods{{
      {"wait", as_method(&wait), METH_FASTCALL | METH_KEYWORDS,
       "wait(timeout=None): whether it has ended"},
      {"poll", &poll, METH_NOARGS, nullptr},
      {"output_count", &output_count, METH_NOARGS, nullptr},
      {"output", &output, METH_O, nullptr},
      {"received_splits", &received_splits, METH_NOARGS, nullptr},
      {"last_joined_rank", &last_joined_rank, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyGetSetDef, 3> properties{{
      {"key", &key, nullptr, nullptr, nullptr},
      {"queued", &queued, nullptr, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  }};
  static std::array<PyType_Slot, 4> slots{{
      {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, properties.data()},
      {0, nullptr},
  }};
  static PyType_Spec spec{"horovod._hvd.Operation", sizeof(Object), 0, Py_TPFLAGS_DEFAULT,
                          slots.data()};
  const py::object type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  type_of_operations = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  type_of_operations->tp_new = nullptr;  // only submit() makes them
  module.add_object("Operation", type);
}

py::object new_operation(hvd_handle* handle, py::object label, Kept kept, bool queued) {
  PyObject* self = type_of_operations->tp_alloc(type_of_operations, 0);
  if (self == nullptr) {
    // lets go of it as if it had been dropped
    const Operation lost(handle, std::move(label), std::move(kept), queued);
    throw py::error_already_set();
  }
  new (&of(self)) Operation(handle, std::move(label), std::move(kept), queued);
  return py::reinterpret_steal<py::object>(self);
}

}  // namespace hvd::python
