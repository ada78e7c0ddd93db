// SPDX-License-Identifier: Apache-2.0
// The kernels as nvcc sees them.
#include "device/cuda/adasum.h"
#include "device/cuda/bodies.h"

using namespace hvd::device::cuda;

#define HVD_KERNEL(name, Arguments, body)                         \
  extern "C" __global__ void __launch_bounds__(kThreads)          \
      name(const __grid_constant__ Arguments table) {             \
    body(table, Thread{blockIdx.x, threadIdx.x});                 \
  }
#include "device/cuda/kernels.def"
