// SPDX-License-Identifier: Apache-2.0
// Limits of time in tests. They are for a machine that does nothing else; HVD_TEST_TIME_SCALE=3
// allows three times as long.
#pragma once

#include <cstdlib>

#include "base/clock.h"

namespace hvd::testing {

// The limit on this machine.
inline Duration scaled(Duration limit) {
  const char* text = std::getenv("HVD_TEST_TIME_SCALE");
  const double scale = text != nullptr && *text != '\0' ? std::atof(text) : 1;
  return std::chrono::duration_cast<Duration>(limit * scale);
}

}  // namespace hvd::testing
