// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "boundary.h"
#include "context/backends.h"

uint32_t hvd_version(void) { return HVD_VERSION; }

const char* hvd_version_string(void) { return HVD_VERSION_STRING; }

int32_t hvd_has_feature(const char* name) {
  if (name == nullptr) return 0;
  for (const char* always : {"shm", "tcp", "cuda"}) {
    if (std::strcmp(name, always) == 0) return 1;
  }
  int32_t found = 0;
  hvd::capi::guard(nullptr, [&]() -> hvd::Status {
    found = hvd::has_backend_feature(name, hvd::process_environment()) ? 1 : 0;
    return {};
  });
  return found;
}
