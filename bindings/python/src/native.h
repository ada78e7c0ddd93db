// SPDX-License-Identifier: Apache-2.0
// What is on the path of every operation is written against CPython's own interface: pybind11's
// dispatch of twelve arguments and its making of an object cost more than the operation itself.
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>

#include <exception>
#include <new>

namespace hvd::python {

// What `function` returns, a new reference; nullptr with Python's exception set if it throws.
template <class Function>
PyObject* guarded(Function&& function) {
  try {
    return function();
#ifdef __GLIBCXX__
  } catch (const abi::__forced_unwind&) {
    throw;  // Python ends this thread, because the interpreter ends
#endif
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
  return nullptr;
}

// A C++ function that CPython calls with an array of arguments, in the form that a PyMethodDef
// wants.
template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace hvd::python
