// SPDX-License-Identifier: Apache-2.0
// The objects of the types in gradients.h, and their methods.
#pragma once

#include <pybind11/pybind11.h>

namespace hvd::python {

struct GradientLine {
  PyObject_HEAD PyObject* tensor_type;
  PyObject* strided;
  PyObject* set_apart;
  PyObject* ready;
  PyObject* flush;
  PyObject* at_end;
  PyObject* full;
  PyObject* waiting;  // a list of counters
  Py_ssize_t bytes;
  Py_ssize_t most_gradients;
  Py_ssize_t most_bytes;
  char done;
  char paused;
  char flying;
  char sent;
};

struct GradientBucket {
  PyObject_HEAD PyObject* counters;  // a list
  Py_ssize_t left;
};

// What is asked for each gradient lies together.
struct GradientCounter {
  PyObject_HEAD PyObject* line;
  PyObject* flight;
  PyObject* bucket;
  Py_ssize_t left;
  Py_ssize_t bytes;
  char late;
  char direct;
  PyObject* parameter;
  PyObject* gradient;
  PyObject* prepared;
  PyObject* generation;
  PyObject* shape;
  PyObject* dtype;
};

// Since the module was made; never freed.
struct GradientTypes {
  PyTypeObject* line = nullptr;
  PyTypeObject* counter = nullptr;
  PyTypeObject* bucket = nullptr;
};
extern GradientTypes gradient_types;

// Of GradientCounter.
PyObject* before_gradient(PyObject* self, PyObject*);
PyObject* after_gradient(PyObject* self, PyObject* parameter);
// Of GradientLine.
PyObject* take_waiting(PyObject* self, PyObject* generation);
PyObject* load_bucket(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
PyObject* is_plain(PyObject* self, PyObject* gradient);
PyObject* reset_line(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

// For members of objects, which may be null.
inline void assign(PyObject*& member, PyObject* value) {
  Py_INCREF(value);
  Py_XSETREF(member, value);
}

inline pybind11::object owned(PyObject* result) {
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

}  // namespace hvd::python
