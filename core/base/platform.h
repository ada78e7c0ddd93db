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

// The length of a turn on a core that Linux gives where there is one core; more with more cores.
inline constexpr uint64_t kShortTurnNs = 700'000;

// Asks the kernel for turns of that length for the calling thread: whoever wants little at a time is let in sooner than threads
// with longer turns (Linux 6.12; before, nothing changes). The share of a core stays the same. Not shorter still: data of some
// megabytes take a millisecond, and being put off in between costs more than it saves.
inline void prefer_short_turns() noexcept {
  struct {  // sched_attr of the kernel, whose header does not go with <sched.h>
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted{};
  if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0U) != 0 || wanted.policy != SCHED_OTHER) return;
  wanted.runtime = kShortTurnNs;
  syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

}  // namespace hvd
