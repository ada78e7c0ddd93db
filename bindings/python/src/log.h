// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>

namespace hvd::python {

// Which lines of the library are shown, and whether with the time.
struct LogSettings {
  hvd_log_level level = HVD_LOG_WARN;
  bool show_time = true;
};

// An hvd_log_fn; user_data is a LogSettings. It never touches Python: it may run while the
// interpreter ends, and on a thread that must not wait for the GIL.
void write_log_line(void* user_data, hvd_log_level level, int32_t rank, const char* component,
                    const char* message);

}  // namespace hvd::python
