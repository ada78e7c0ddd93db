// SPDX-License-Identifier: Apache-2.0
#include "gradients.h"

#include <pybind11/pybind11.h>
// After Python's own header.
#include <structmember.h>

#include <array>
#include <cstddef>
#include <utility>

#include "native.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

struct Line {
  PyObject_HEAD PyObject* tensor_type;
  PyObject* strided;
  PyObject* set_apart;
  PyObject* ready;
  PyObject* flush;
  PyObject* at_end;
  PyObject* waiting;  // a list of counters
  Py_ssize_t bytes;
  Py_ssize_t most_gradients;
  Py_ssize_t most_bytes;
  char done;
  char paused;
  char flying;
  char sent;
};

struct Counter {
  PyObject_HEAD PyObject* line;
  PyObject* flight;
  PyObject* direct;
  Py_ssize_t left;
  Py_ssize_t bytes;
  char late;
};

// Since the module was made; never freed.
PyTypeObject* type_of_lines = nullptr;
PyTypeObject* type_of_counters = nullptr;

// Names that are looked up for every gradient.
struct Names {
  PyObject* grad = PyUnicode_InternFromString("grad");
  PyObject* gradient = PyUnicode_InternFromString("gradient");
  PyObject* generation = PyUnicode_InternFromString("generation");
  PyObject* prepared = PyUnicode_InternFromString("prepared");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* layout = PyUnicode_InternFromString("layout");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
};

const Names& names() {
  static const Names all;
  return all;
}

py::object owned(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

py::object attribute(py::handle object, PyObject* name) { return owned(PyObject_GetAttr(object.ptr(), name)); }

py::object called(py::handle object, PyObject* method) { return owned(PyObject_CallMethodNoArgs(object.ptr(), method)); }

bool is(const py::object& one, PyObject* other) { return one.ptr() == other; }

bool equal(py::handle one, py::handle other) {
  const int result = PyObject_RichCompareBool(one.ptr(), other.ptr(), Py_EQ);
  if (result < 0) throw py::error_already_set();
  return result != 0;
}

Line& line_of(const Counter& counter) {
  if (counter.line == nullptr || !PyObject_TypeCheck(counter.line, type_of_lines))
    throw py::type_error("line: no GradientLine");
  return *reinterpret_cast<Line*>(counter.line);
}

void check_list(const Line& line) {
  if (line.waiting == nullptr || !PyList_CheckExact(line.waiting)) throw py::type_error("waiting: no list");
}

void call_back(PyObject* function) { owned(PyObject_CallNoArgs(function)); }

// Another gradient waits; whoever is due leaves.
void add(Line& line, Counter& counter, py::handle gradient) {
  check_list(line);
  if (PyObject_SetAttr(counter.direct, names().gradient, gradient.ptr()) != 0) throw py::error_already_set();
  Py_INCREF(counter.direct);
  Py_XSETREF(counter.flight, counter.direct);
  if (PyList_Append(line.waiting, reinterpret_cast<PyObject*>(&counter)) != 0) throw py::error_already_set();
  line.bytes += counter.bytes;
  const Py_ssize_t count = PyList_GET_SIZE(line.waiting);
  if (count >= line.most_gradients || line.bytes >= line.most_bytes || !line.sent)
    call_back(line.flush);
  else if (count == 1)
    call_back(line.at_end);
}

PyObject* before(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    auto& counter = *reinterpret_cast<Counter*>(self);
    if (counter.flight != nullptr && counter.flight != Py_None && !counter.late)
      owned(PyObject_CallOneArg(line_of(counter).set_apart, self));
    Py_RETURN_NONE;
  });
}

PyObject* after(PyObject* self, PyObject* parameter) {
  return guarded([&]() -> PyObject* {
    auto& counter = *reinterpret_cast<Counter*>(self);
    Line& line = line_of(counter);
    const py::object kept = py::reinterpret_borrow<py::object>(counter.line);  // what is called can do anything
    line.done = 0;
    if (line.paused || counter.late || --counter.left != 0) Py_RETURN_NONE;
    line.flying = 1;
    if (counter.direct == nullptr || counter.direct == Py_None)
      owned(PyObject_CallFunctionObjArgs(line.ready, self, parameter, nullptr));
    else
      add(line, counter, attribute(parameter, names().grad));
    Py_RETURN_NONE;
  });
}

// Whether the gradient is numbers in the order of their places in memory of the CPU.
bool plain(const Line& line, py::handle gradient) {
  const Names& n = names();
  return reinterpret_cast<PyObject*>(Py_TYPE(gradient.ptr())) == line.tensor_type &&
         is(attribute(gradient, n.layout), line.strided) && is(attribute(gradient, n.is_cpu), Py_True) &&
         is(called(gradient, n.is_contiguous), Py_True) && is(called(gradient, n.is_neg), Py_False);
}

PyObject* is_plain(PyObject* self, PyObject* gradient) {
  return guarded([&] { return PyBool_FromLong(plain(*reinterpret_cast<Line*>(self), gradient)); });
}

// Whether the engine can reduce the gradient where it lies by what was prepared for `direct`.
bool fits(const Line& line, py::handle direct, py::handle gradient, py::handle generation) {
  const Names& n = names();
  return plain(line, gradient) && equal(attribute(direct, n.generation), generation) &&
         is(attribute(gradient, n.dtype), attribute(direct, n.dtype).ptr()) &&
         equal(attribute(gradient, n.shape), attribute(direct, n.shape));
}

PyObject* take(PyObject* self, PyObject* generation) {
  return guarded([&] {
    auto& line = *reinterpret_cast<Line*>(self);
    check_list(line);
    // Not in the line while attributes are asked for, which may run any code.
    const auto waiting = py::reinterpret_steal<py::list>(std::exchange(line.waiting, owned(PyList_New(0)).release().ptr()));
    line.bytes = 0;
    py::list prepared, addresses, gradients, rest;
    for (const py::handle one : waiting) {
      const auto direct = py::reinterpret_borrow<py::object>(reinterpret_cast<Counter*>(one.ptr())->direct);
      const py::object gradient = attribute(direct, names().gradient);
      if (!fits(line, direct, gradient, generation)) {
        rest.append(one);
        continue;
      }
      prepared.append(attribute(direct, names().prepared));
      addresses.append(called(gradient, names().data_ptr));
      gradients.append(gradient);
    }
    return py::make_tuple(prepared, addresses, gradients, rest).release().ptr();
  });
}

void start_again(Counter& counter, Py_ssize_t left) {
  Py_INCREF(Py_None);
  Py_XSETREF(counter.flight, Py_None);
  counter.late = 0;
  counter.left = left;
  if (counter.direct == nullptr || counter.direct == Py_None) return;
  if (PyObject_SetAttr(counter.direct, names().gradient, Py_None) != 0) throw py::error_already_set();
}

PyObject* reset(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2 || !PyList_CheckExact(given[0])) throw py::type_error("reset() takes a list of counters and a number");
    const Py_ssize_t left = PyLong_AsSsize_t(given[1]);
    if (left == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    auto& line = *reinterpret_cast<Line*>(self);
    line.bytes = 0;
    line.done = line.flying = line.sent = 0;
    // Dropping a gradient can run any code, which may change both lists.
    const py::object waiting = owned(std::exchange(line.waiting, owned(PyList_New(0)).release().ptr()));
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(given[0]); ++place) {
      const auto one = py::reinterpret_borrow<py::object>(PyList_GET_ITEM(given[0], place));
      if (!PyObject_TypeCheck(one.ptr(), type_of_counters)) throw py::type_error("reset: no GradientCounter");
      start_again(*reinterpret_cast<Counter*>(one.ptr()), left);
    }
    Py_RETURN_NONE;
  });
}

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

constexpr std::array<PyObject * Line::*, 7> kOfLine{&Line::tensor_type, &Line::strided, &Line::set_apart, &Line::ready,
                                                    &Line::flush,       &Line::at_end,  &Line::waiting};
constexpr std::array<PyObject * Counter::*, 3> kOfCounter{&Counter::line, &Counter::flight, &Counter::direct};

int traverse_line(PyObject* self, visitproc visit, void* arg) { return visit_all<Line>(self, kOfLine, visit, arg); }
int clear_line(PyObject* self) { return clear_all<Line>(self, kOfLine); }
int traverse_counter(PyObject* self, visitproc visit, void* arg) { return visit_all<Counter>(self, kOfCounter, visit, arg); }
int clear_counter(PyObject* self) { return clear_all<Counter>(self, kOfCounter); }

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
  PyObject *tensor_type, *strided, *set_apart, *ready, *flush, *at_end;
  if (!PyArg_ParseTuple(arguments, "OOOOOO", &tensor_type, &strided, &set_apart, &ready, &flush, &at_end)) return -1;
  auto& line = *reinterpret_cast<Line*>(self);
  const std::array<PyObject*, 6> given{tensor_type, strided, set_apart, ready, flush, at_end};
  for (size_t place = 0; place < given.size(); ++place) {
    Py_INCREF(given[place]);
    Py_XSETREF(line.*kOfLine[place], given[place]);
  }
  Py_XSETREF(line.waiting, PyList_New(0));
  return line.waiting == nullptr ? -1 : 0;
}

py::object new_type(PyType_Spec& spec, py::module_& module, const char* name) {
  py::object type = owned(PyType_FromSpec(&spec));
  module.add_object(name, type);
  return type;
}

void add_line_type(py::module_& module) {
  static std::array<PyMethodDef, 4> methods{{{"take", &take, METH_O, nullptr},
                                             {"plain", &is_plain, METH_O, nullptr},
                                             {"reset", as_method(&reset), METH_FASTCALL, nullptr},
                                             {nullptr, nullptr, 0, nullptr}}};
  static std::array<PyMemberDef, 9> members{{
      {"waiting", T_OBJECT_EX, offsetof(Line, waiting), 0, nullptr},
      {"bytes", T_PYSSIZET, offsetof(Line, bytes), 0, nullptr},
      {"most_gradients", T_PYSSIZET, offsetof(Line, most_gradients), 0, nullptr},
      {"most_bytes", T_PYSSIZET, offsetof(Line, most_bytes), 0, nullptr},
      {"done", T_BOOL, offsetof(Line, done), 0, nullptr},
      {"paused", T_BOOL, offsetof(Line, paused), 0, nullptr},
      {"flying", T_BOOL, offsetof(Line, flying), 0, nullptr},
      {"sent", T_BOOL, offsetof(Line, sent), 0, nullptr},
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
  static PyType_Spec spec{"horovod._hvd.GradientLine", sizeof(Line), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots.data()};
  type_of_lines = reinterpret_cast<PyTypeObject*>(new_type(spec, module, "GradientLine").release().ptr());
}

void add_counter_type(py::module_& module) {
  static std::array<PyMethodDef, 3> methods{
      {{"before", &before, METH_O, nullptr}, {"after", &after, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}}};
  static std::array<PyMemberDef, 7> members{{
      {"line", T_OBJECT, offsetof(Counter, line), 0, nullptr},
      {"flight", T_OBJECT, offsetof(Counter, flight), 0, nullptr},
      {"direct", T_OBJECT, offsetof(Counter, direct), 0, nullptr},
      {"left", T_PYSSIZET, offsetof(Counter, left), 0, nullptr},
      {"bytes", T_PYSSIZET, offsetof(Counter, bytes), 0, nullptr},
      {"late", T_BOOL, offsetof(Counter, late), 0, nullptr},
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
  static PyType_Spec spec{"horovod._hvd.GradientCounter", sizeof(Counter), 0, flags, slots.data()};
  type_of_counters = reinterpret_cast<PyTypeObject*>(new_type(spec, module, "GradientCounter").release().ptr());
}

}  // namespace

void add_gradient_types(py::module_& module) {
  add_line_type(module);
  add_counter_type(module);
}

}  // namespace hvd::python
