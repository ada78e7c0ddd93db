// SPDX-License-Identifier: Apache-2.0
// Which MPI type and operator stand for an element type and a reduction. MPI's own sum and product
// where they mean the same; elsewhere (a NaN in a minimum, bytes that are truth values) an operator
// over libhvd's kernels.
#pragma once

#include <cstdint>

#include "backend/mpi/api.h"

namespace hvd::backend::mpi {

struct Reduction {
  Handle type = nullptr;
  Handle op = nullptr;

  using Kernel = void (*)(int32_t dtype, int32_t op, void* into, const void* a, const void* b,
                          size_t count);

  static bool known(int32_t dtype, int32_t op);
  // The reduction of a known pair.
  static Reduction find(const Api& api, int32_t dtype, int32_t op, Kernel kernel);
};

}  // namespace hvd::backend::mpi
