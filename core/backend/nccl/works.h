// SPDX-License-Identifier: Apache-2.0
// How a work is said in NCCL's calls, which has fewer element types and operations than hvd.h.
#pragma once

#include <optional>

#include "backend/backend.h"
#include "backend/nccl/library.h"

namespace hvd::backend::nccl {

// Where a work's scales are applied. The scales of a sum of floating types go into the library's
// call, both at once, because the order makes no difference but for overflow. Other scales need
// kernels of ours, before and after the call.
struct Scaling {
  double before = 1.0;
  double in_call = 1.0;
  double after = 1.0;
};
Scaling scaling_of(const Work& work);
// Whether NCCL, with `kernels` of ours, can run it with the results that hvd.h promises; depends on
// what the members have agreed on only.
bool runs(const Work& work, bool kernels);
// The number of an element type, if NCCL has it.
std::optional<int> type_number(DType dtype);
// The factor in the first bytes, as an element of the type; for Scaling::in_call.
struct Scalar {
  alignas(8) unsigned char bytes[8] = {};
};
Scalar scalar_of(DType dtype, double factor);

// Where and with what the calls of one work are made.
struct Target {
  const Calls& calls;
  CommHandle comm;
  StreamHandle stream;
  int me;
  int members;
};
// Makes them, between ncclGroupStart and ncclGroupEnd. `op` reduces. The first error, or 0.
int queue(const Target& target, const Work& work, int op);

}  // namespace hvd::backend::nccl
