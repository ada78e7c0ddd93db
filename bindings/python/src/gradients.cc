// SPDX-License-Identifier: Apache-2.0
// What the gradients' hooks and their line do.
#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "gradient_objects.h"
#include "native.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

// Names that are looked up for every gradient.
struct Names {
  PyObject* grad = PyUnicode_InternFromString("grad");
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

py::object attribute(py::handle object, PyObject* name) { return owned(PyObject_GetAttr(object.ptr(), name)); }

py::object called(py::handle object, PyObject* method) { return owned(PyObject_CallMethodNoArgs(object.ptr(), method)); }

bool is(const py::object& one, PyObject* other) { return one.ptr() == other; }

bool given(PyObject* value) { return value != nullptr && value != Py_None; }

bool equal(PyObject* one, PyObject* other) {
  const int result = PyObject_RichCompareBool(one, other, Py_EQ);
  if (result < 0) throw py::error_already_set();
  return result != 0;
}

GradientLine& line_of(const GradientCounter& counter) {
  if (counter.line == nullptr || !PyObject_TypeCheck(counter.line, gradient_types.line))
    throw py::type_error("line: no GradientLine");
  return *reinterpret_cast<GradientLine*>(counter.line);
}

void check_list(PyObject* list, const char* name) {
  if (list == nullptr || !PyList_CheckExact(list)) throw py::type_error(std::string(name) + ": no list");
}

// Null if it has none.
GradientBucket* bucket_of(const GradientCounter& counter) {
  if (!given(counter.bucket)) return nullptr;
  if (!PyObject_TypeCheck(counter.bucket, gradient_types.bucket)) throw py::type_error("bucket: no GradientBucket");
  return reinterpret_cast<GradientBucket*>(counter.bucket);
}

// An item of a list, kept: what is called meanwhile can change the list.
py::object counter_in(PyObject* list, Py_ssize_t place) {
  auto one = py::reinterpret_borrow<py::object>(PyList_GET_ITEM(list, place));
  if (!PyObject_TypeCheck(one.ptr(), gradient_types.counter)) throw py::type_error("no GradientCounter");
  return one;
}

GradientCounter& counter_of(const py::object& one) { return *reinterpret_cast<GradientCounter*>(one.ptr()); }

void call_back(PyObject* function) { owned(PyObject_CallNoArgs(function)); }

// Another gradient waits; whoever is due leaves.
void add(GradientLine& line, GradientCounter& counter, const py::object& gradient) {
  check_list(line.waiting, "waiting");
  assign(counter.gradient, gradient.ptr());
  assign(counter.flight, reinterpret_cast<PyObject*>(&counter));
  if (PyList_Append(line.waiting, reinterpret_cast<PyObject*>(&counter)) != 0) throw py::error_already_set();
  line.bytes += counter.bytes;
  const Py_ssize_t count = PyList_GET_SIZE(line.waiting);
  if (count >= line.most_gradients || line.bytes >= line.most_bytes || !line.sent)
    call_back(line.flush);
  else if (count == 1)
    call_back(line.at_end);
}

// Whether the gradient is numbers in the order of their places in memory of the CPU.
bool plain(const GradientLine& line, py::handle gradient) {
  const Names& n = names();
  return reinterpret_cast<PyObject*>(Py_TYPE(gradient.ptr())) == line.tensor_type &&
         is(attribute(gradient, n.layout), line.strided) && is(attribute(gradient, n.is_cpu), Py_True) &&
         is(called(gradient, n.is_contiguous), Py_True) && is(called(gradient, n.is_neg), Py_False);
}

// Whether the engine can reduce the gradient where it lies by what was prepared for its counter.
bool fits(const GradientLine& line, const GradientCounter& counter, const py::object& gradient, PyObject* generation) {
  const Names& n = names();
  return given(counter.generation) && plain(line, gradient) && equal(counter.generation, generation) &&
         is(attribute(gradient, n.dtype), counter.dtype) && equal(attribute(gradient, n.shape).ptr(), counter.shape);
}

void start_again(GradientCounter& counter, Py_ssize_t left) {
  counter.late = 0;
  counter.left = left;
  if (GradientBucket* bucket = bucket_of(counter)) {
    check_list(bucket->counters, "counters");
    bucket->left = PyList_GET_SIZE(bucket->counters);
  }
  assign(counter.flight, Py_None);
  assign(counter.gradient, Py_None);
}

}  // namespace

PyObject* before_gradient(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    auto& counter = *reinterpret_cast<GradientCounter*>(self);
    if (given(counter.flight) && !counter.late) owned(PyObject_CallOneArg(line_of(counter).set_apart, self));
    Py_RETURN_NONE;
  });
}

PyObject* after_gradient(PyObject* self, PyObject* parameter) {
  return guarded([&]() -> PyObject* {
    auto& counter = *reinterpret_cast<GradientCounter*>(self);
    GradientLine& line = line_of(counter);
    const py::object kept = py::reinterpret_borrow<py::object>(counter.line);  // what is called can do anything
    line.done = 0;
    if (line.paused || counter.late || --counter.left != 0) Py_RETURN_NONE;
    line.flying = 1;
    if (!counter.direct) {
      owned(PyObject_CallFunctionObjArgs(line.ready, self, parameter, nullptr));
    } else if (GradientBucket* bucket = bucket_of(counter)) {
      if (--bucket->left == 0) owned(PyObject_CallOneArg(line.full, counter.bucket));
    } else {
      add(line, counter, attribute(parameter, names().grad));
    }
    Py_RETURN_NONE;
  });
}

PyObject* is_plain(PyObject* self, PyObject* gradient) {
  return guarded([&] { return PyBool_FromLong(plain(*reinterpret_cast<GradientLine*>(self), gradient)); });
}

PyObject* take_waiting(PyObject* self, PyObject* generation) {
  return guarded([&] {
    auto& line = *reinterpret_cast<GradientLine*>(self);
    check_list(line.waiting, "waiting");
    // Not in the line while attributes are asked for, which may run any code.
    const py::object waiting = owned(std::exchange(line.waiting, owned(PyList_New(0)).release().ptr()));
    line.bytes = 0;
    py::list prepared, addresses, gradients, rest;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(waiting.ptr()); ++place) {
      const py::object one = counter_in(waiting.ptr(), place);
      const GradientCounter& counter = counter_of(one);
      const auto gradient = py::reinterpret_borrow<py::object>(given(counter.gradient) ? counter.gradient : Py_None);
      if (!fits(line, counter, gradient, generation)) {
        rest.append(one);
        continue;
      }
      prepared.append(py::handle(counter.prepared));
      addresses.append(called(gradient, names().data_ptr));
      gradients.append(gradient);
    }
    return py::make_tuple(prepared, addresses, gradients, rest).release().ptr();
  });
}

PyObject* load_bucket(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) throw py::type_error("load() takes a list of counters and a generation");
    check_list(arguments[0], "counters");
    const auto& line = *reinterpret_cast<GradientLine*>(self);
    py::list addresses, gradients;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(arguments[0]); ++place) {
      const py::object one = counter_in(arguments[0], place);
      const GradientCounter& counter = counter_of(one);
      if (!given(counter.parameter)) Py_RETURN_NONE;
      const py::object gradient = attribute(counter.parameter, names().grad);
      if (!fits(line, counter, gradient, arguments[1])) Py_RETURN_NONE;
      addresses.append(called(gradient, names().data_ptr));
      gradients.append(gradient);
    }
    // Asking a gradient can run any code, which may change the list.
    if (PyList_GET_SIZE(arguments[0]) != PyList_GET_SIZE(gradients.ptr())) Py_RETURN_NONE;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(gradients.ptr()); ++place) {
      const py::object one = counter_in(arguments[0], place);
      assign(counter_of(one).gradient, PyList_GET_ITEM(gradients.ptr(), place));
      assign(counter_of(one).flight, one.ptr());
    }
    return py::make_tuple(addresses, gradients).release().ptr();
  });
}

PyObject* reset_line(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) throw py::type_error("reset() takes a list of counters and a number");
    check_list(arguments[0], "counters");
    const Py_ssize_t left = PyLong_AsSsize_t(arguments[1]);
    if (left == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    auto& line = *reinterpret_cast<GradientLine*>(self);
    line.bytes = 0;
    line.done = line.flying = line.sent = 0;
    // Dropping a gradient can run any code, which may change both lists.
    const py::object waiting = owned(std::exchange(line.waiting, owned(PyList_New(0)).release().ptr()));
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(arguments[0]); ++place) {
      const py::object one = counter_in(arguments[0], place);
      start_again(counter_of(one), left);
    }
    Py_RETURN_NONE;
  });
}

}  // namespace hvd::python
