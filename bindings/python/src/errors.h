// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>

#include <string>

namespace hvd::python {

// Raises the Python exception for a failed call: horovod.common.exceptions.from_status decides which class it is.
[[noreturn]] void raise_status(hvd_status status, const hvd_error& error, const std::string& operation = {});

inline void check(hvd_status status, const hvd_error& error) {
  if (status != HVD_OK) raise_status(status, error);
}

}  // namespace hvd::python
