// SPDX-License-Identifier: Apache-2.0
// The only file, with kernels/dispatch.cc, that asks which machine it is compiled for.
#pragma once

#include <sched.h>

namespace hvd {

// Tells the core that this is a wait loop.
inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Cores that this process may use, which a container may have made fewer than the machine has.
inline int usable_cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

}  // namespace hvd
