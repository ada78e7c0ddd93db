// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "boundary.h"

uint32_t hvd_version(void) { return HVD_VERSION; }

const char* hvd_version_string(void) { return HVD_VERSION_STRING; }

int32_t hvd_has_feature(const char* name) {
  if (name == nullptr) return 0;
  return std::strcmp(name, "shm") == 0 || std::strcmp(name, "tcp") == 0 ? 1 : 0;
}
