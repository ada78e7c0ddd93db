// SPDX-License-Identifier: Apache-2.0
// The Python types GradientLine, GradientCounter and GradientBucket; horovod/_floor/gradients.py is the same in Python and describes them.
// Backward calls a hook before and after each gradient, so these calls are made without a Python frame.
#pragma once

#include <pybind11/pybind11.h>

namespace hvd::python {

void add_gradient_types(pybind11::module_& module);

}  // namespace hvd::python
