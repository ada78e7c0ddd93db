// SPDX-License-Identifier: Apache-2.0
// The only file, with those of kernels/, that asks which machine it is compiled for.
#pragma once

// For processors and, compiled by nvcc, for devices. Such functions are always inlined, because
// code compiled for one instruction set may not serve other processors.
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

}  // namespace hvd
