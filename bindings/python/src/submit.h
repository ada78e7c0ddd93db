// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hvd::python {

// Context.submit; horovod/_floor/__init__.py describes it.
void add_submit(pybind11::handle context_type);

}  // namespace hvd::python
