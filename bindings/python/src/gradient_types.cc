// SPDX-License-Identifier: Apache-2.0
// The types: members, methods, and what the garbage collector asks.
#include "gradients.h"

#include <pybind11/pybind11.h>
// After Python's own header.
#include <structmember.h>

#include <array>
#include <cstddef>

#include "gradient_objects.h"
#include "native.h"

namespace py = pybind11;

namespace hvd::python {

GradientTypes gradient_types;

namespace {

template <class Object, size_t Count>
int visit_all(PyObject* self, const std::array<PyObject * Object::*, Count>& members, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (const auto member : members) Py_VISIT(reinterpret_cast<Object*>(self)->*member);
  return 0;
}

template <class Object, size_t Count>
int clear_all(PyObject* self, const std::array<PyObject * Object::*, Count>& members) {
  for (const auto member : members) Py_CLEAR(reinterpret_cast<Object*>(self)->*member);
  return 0;
}

constexpr std::array<PyObject * GradientLine::*, 8> kOfLine{
    &GradientLine::tensor_type, &GradientLine::strided, &GradientLine::set_apart, &GradientLine::ready,
    &GradientLine::flush,       &GradientLine::at_end,  &GradientLine::full,      &GradientLine::waiting};
constexpr std::array<PyObject * GradientCounter::*, 9> kOfCounter{
    &GradientCounter::line,       &GradientCounter::flight,   &GradientCounter::bucket,
    &GradientCounter::parameter,  &GradientCounter::gradient, &GradientCounter::prepared,
    &GradientCounter::generation, &GradientCounter::shape,    &GradientCounter::dtype};
constexpr std::array<PyObject * GradientBucket::*, 1> kOfBucket{&GradientBucket::counters};

int traverse_line(PyObject* self, visitproc visit, void* arg) { return visit_all<GradientLine>(self, kOfLine, visit, arg); }
int clear_line(PyObject* self) { return clear_all<GradientLine>(self, kOfLine); }
int traverse_counter(PyObject* self, visitproc visit, void* arg) {
  return visit_all<GradientCounter>(self, kOfCounter, visit, arg);
}
int clear_counter(PyObject* self) { return clear_all<GradientCounter>(self, kOfCounter); }
int traverse_bucket(PyObject* self, visitproc visit, void* arg) {
  return visit_all<GradientBucket>(self, kOfBucket, visit, arg);
}
int clear_bucket(PyObject* self) { return clear_all<GradientBucket>(self, kOfBucket); }

template <int (*Clear)(PyObject*)>
void end(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  Clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int start_line(PyObject* self, PyObject* arguments, PyObject* named) {
  if (named != nullptr && PyDict_GET_SIZE(named) != 0) {
    PyErr_SetString(PyExc_TypeError, "GradientLine: arguments have no names");
    return -1;
  }
  PyObject *tensor_type, *strided, *set_apart, *ready, *flush, *at_end, *full;
  if (!PyArg_ParseTuple(arguments, "OOOOOOO", &tensor_type, &strided, &set_apart, &ready, &flush, &at_end, &full)) return -1;
  auto& line = *reinterpret_cast<GradientLine*>(self);
  const std::array<PyObject*, 7> all{tensor_type, strided, set_apart, ready, flush, at_end, full};
  for (size_t place = 0; place < all.size(); ++place) assign(line.*kOfLine[place], all[place]);
  Py_XSETREF(line.waiting, PyList_New(0));
  return line.waiting == nullptr ? -1 : 0;
}

py::object new_type(PyType_Spec& spec, py::module_& module, const char* name) {
  py::object type = owned(PyType_FromSpec(&spec));
  module.add_object(name, type);
  return type;
}

void add_line_type(py::module_& module) {
  static std::array<PyMethodDef, 5> methods{{{"take", &take_waiting, METH_O, nullptr},
                                             {"load", as_method(&load_bucket), METH_FASTCALL, nullptr},
                                             {"plain", &is_plain, METH_O, nullptr},
                                             {"reset", as_method(&reset_line), METH_FASTCALL, nullptr},
                                             {nullptr, nullptr, 0, nullptr}}};
  static std::array<PyMemberDef, 9> members{{
      {"waiting", T_OBJECT_EX, offsetof(GradientLine, waiting), 0, nullptr},
      {"bytes", T_PYSSIZET, offsetof(GradientLine, bytes), 0, nullptr},
      {"most_gradients", T_PYSSIZET, offsetof(GradientLine, most_gradients), 0, nullptr},
      {"most_bytes", T_PYSSIZET, offsetof(GradientLine, most_bytes), 0, nullptr},
      {"done", T_BOOL, offsetof(GradientLine, done), 0, nullptr},
      {"paused", T_BOOL, offsetof(GradientLine, paused), 0, nullptr},
      {"flying", T_BOOL, offsetof(GradientLine, flying), 0, nullptr},
      {"sent", T_BOOL, offsetof(GradientLine, sent), 0, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  }};
  static std::array<PyType_Slot, 7> slots{{
      {Py_tp_init, reinterpret_cast<void*>(&start_line)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&end<clear_line>)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse_line)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear_line)},
      {Py_tp_methods, methods.data()},
      {Py_tp_members, members.data()},
      {0, nullptr},
  }};
  static PyType_Spec spec{"horovod._hvd.GradientLine", sizeof(GradientLine), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                          slots.data()};
  gradient_types.line = reinterpret_cast<PyTypeObject*>(new_type(spec, module, "GradientLine").release().ptr());
}

void add_counter_type(py::module_& module) {
  static std::array<PyMethodDef, 3> methods{{{"before", &before_gradient, METH_O, nullptr},
                                             {"after", &after_gradient, METH_O, nullptr},
                                             {nullptr, nullptr, 0, nullptr}}};
  static std::array<PyMemberDef, 14> members{{
      {"line", T_OBJECT, offsetof(GradientCounter, line), 0, nullptr},
      {"flight", T_OBJECT, offsetof(GradientCounter, flight), 0, nullptr},
      {"bucket", T_OBJECT, offsetof(GradientCounter, bucket), 0, nullptr},
      {"left", T_PYSSIZET, offsetof(GradientCounter, left), 0, nullptr},
      {"bytes", T_PYSSIZET, offsetof(GradientCounter, bytes), 0, nullptr},
      {"late", T_BOOL, offsetof(GradientCounter, late), 0, nullptr},
      {"direct", T_BOOL, offsetof(GradientCounter, direct), 0, nullptr},
      {"parameter", T_OBJECT, offsetof(GradientCounter, parameter), 0, nullptr},
      {"gradient", T_OBJECT, offsetof(GradientCounter, gradient), 0, nullptr},
      {"prepared", T_OBJECT, offsetof(GradientCounter, prepared), 0, nullptr},
      {"generation", T_OBJECT, offsetof(GradientCounter, generation), 0, nullptr},
      {"shape", T_OBJECT, offsetof(GradientCounter, shape), 0, nullptr},
      {"dtype", T_OBJECT, offsetof(GradientCounter, dtype), 0, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  }};
  static std::array<PyType_Slot, 6> slots{{
      {Py_tp_dealloc, reinterpret_cast<void*>(&end<clear_counter>)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse_counter)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear_counter)},
      {Py_tp_methods, methods.data()},
      {Py_tp_members, members.data()},
      {0, nullptr},
  }};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  static PyType_Spec spec{"horovod._hvd.GradientCounter", sizeof(GradientCounter), 0, flags, slots.data()};
  gradient_types.counter = reinterpret_cast<PyTypeObject*>(new_type(spec, module, "GradientCounter").release().ptr());
}

void add_bucket_type(py::module_& module) {
  static std::array<PyMemberDef, 3> members{{
      {"counters", T_OBJECT, offsetof(GradientBucket, counters), 0, nullptr},
      {"left", T_PYSSIZET, offsetof(GradientBucket, left), 0, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  }};
  static std::array<PyType_Slot, 5> slots{{
      {Py_tp_dealloc, reinterpret_cast<void*>(&end<clear_bucket>)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse_bucket)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear_bucket)},
      {Py_tp_members, members.data()},
      {0, nullptr},
  }};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  static PyType_Spec spec{"horovod._hvd.GradientBucket", sizeof(GradientBucket), 0, flags, slots.data()};
  gradient_types.bucket = reinterpret_cast<PyTypeObject*>(new_type(spec, module, "GradientBucket").release().ptr());
}

}  // namespace

void add_gradient_types(py::module_& module) {
  add_line_type(module);
  add_counter_type(module);
  add_bucket_type(module);
}

}  // namespace hvd::python
