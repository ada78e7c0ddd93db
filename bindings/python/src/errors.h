// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>

#include <string>

namespace hvd::python {

// HVD_ERROR_INIT without writing zeros over the kilobyte of its message.
inline hvd_error fresh_error() {
  hvd_error error;
  error.struct_size = sizeof error;
  error.status = HVD_OK;
  error.rank = -1;
  error.sys_errno = 0;
  error.message[0] = '\0';
  return error;
}

// Raises the Python exception for a failed call: horovod.common.exceptions.from_status decides
// which class it is.
[[noreturn]] void raise_status(hvd_status status, const hvd_error& error,
                               const std::string& operation = {});

inline void check(hvd_status status, const hvd_error& error) {
  if (status != HVD_OK) raise_status(status, error);
}

}  // namespace hvd::python
