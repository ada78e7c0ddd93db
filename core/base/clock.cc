// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <cstdio>

namespace hvd {

std::string seconds_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char text[32];
  std::snprintf(text, sizeof text, seconds < 1000 ? "%.3g" : "%.0f", seconds);
  return text;
}

}  // namespace hvd
