// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hvd::python {

// Context.submit and submit_array; horovod/_native/__init__.py describes them.
void add_submit(pybind11::handle context_type);

}  // namespace hvd::python
