// SPDX-License-Identifier: Apache-2.0
// What this process has open, for tests that nothing is left behind.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

namespace hvd::testing {

inline size_t entries(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

inline size_t open_descriptors() { return entries("/proc/self/fd"); }

// The least in 50 ms: a joined thread may stay in the listing for a moment.
inline size_t running_threads() {
  size_t least = entries("/proc/self/task");
  for (int i = 0; i < 50; ++i) {
    ::usleep(1000);
    least = std::min(least, entries("/proc/self/task"));
  }
  return least;
}

}  // namespace hvd::testing
