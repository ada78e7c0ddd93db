// SPDX-License-Identifier: Apache-2.0
// The only file, with those of kernels/, that asks which machine it is compiled for.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

// For processors and, compiled by nvcc, for devices. Always inlined: what is compiled for one instruction set may not serve others.
#ifdef __CUDACC__
#define HVD_ANYWHERE __host__ __device__ __forceinline__
#else
#define HVD_ANYWHERE __attribute__((always_inline)) inline
#endif

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

// Asks the kernel for turns of 0.1 ms on a core instead of some 3 ms for the calling thread: whoever wants little at a time is
// let in sooner (Linux 6.12; before, nothing changes). The share of a core stays the same.
inline void prefer_short_turns() noexcept {
  struct {  // sched_attr of the kernel, whose header does not go with <sched.h>
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted{};
  if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0U) != 0 || wanted.policy != SCHED_OTHER) return;
  wanted.runtime = 100'000;  // nanoseconds, the shortest there is
  syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

}  // namespace hvd
