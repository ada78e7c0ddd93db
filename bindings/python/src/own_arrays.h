// SPDX-License-Identifier: Apache-2.0
// Arrays of the caller that the library can use as they are, read without making Python objects of
// address, dtype and shape.
#pragma once

#include <hvd/hvd.h>
#include <pybind11/pybind11.h>

namespace hvd::python {

// From now on objects of exactly this type are read: `how` is a dict from NumPy dtypes to the
// library's numbers, for NumPy's arrays, or the capsule of DLPack's C exchange interface.
void read_arrays_of(pybind11::type type, const pybind11::object& how);

// A function that gives (address, dtype number, shape) of a NumPy array that the library can use as
// it is, and None for everything else. `dtypes` is a dict from NumPy dtypes to the library's
// numbers.
pybind11::object make_describe(const pybind11::dict& dtypes);

// Fills `tensor`, whose shape is the object's own. False, without an exception, if the library
// cannot take the object as it is: an unknown type or dtype, gaps, another device, no elements, or
// read-only where the library is to write.
bool read_own_array(PyObject* object, bool to_write, hvd_tensor& tensor);

}  // namespace hvd::python
