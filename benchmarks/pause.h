/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HVD_BENCHMARKS_PAUSE_H
#define HVD_BENCHMARKS_PAUSE_H

/* Tells the core that this is a spin loop. */
static inline void bench_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
