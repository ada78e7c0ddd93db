// SPDX-License-Identifier: Apache-2.0
// The Python type Operation; horovod/_native/__init__.py describes it.
#pragma once

#include "operation.h"

namespace hvd::python {

void add_operation_type(pybind11::module_& module);

// A Python object around Operation(handle, label, kept, queued). Owns the handle even if it throws.
pybind11::object new_operation(hvd_handle* handle, pybind11::object label, Kept kept, bool queued);

}  // namespace hvd::python
