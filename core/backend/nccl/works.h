// SPDX-License-Identifier: Apache-2.0
// How a work is said in NCCL's calls, which has fewer element types and operations than hvd.h.
#pragma once

#include <optional>

#include "backend/backend.h"
#include "backend/nccl/library.h"

namespace hvd::backend::nccl {

// Whether NCCL can run it with the results that hvd.h promises; depends on what the members have agreed on only.
bool runs(const Work& work);
// The number of an element type, if NCCL has it.
std::optional<int> type_number(DType dtype);
// What a sum is multiplied with: both scales, because the order makes no difference but for overflow.
inline double factor_of(const Work& work) { return work.prescale * work.postscale; }
// The factor in the first bytes, as an element of the type; for floating types, and factors that runs() takes.
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
