// SPDX-License-Identifier: Apache-2.0
// What a data plane has spent on its works so far, in ticks (base/ticks.h).
#pragma once

#include <cstdint>

namespace hvd::collectives {

struct Effort {
  uint64_t reduced = 0;  // in kernels that put contributions together
  uint64_t copied = 0;   // into and out of the memory that members share

  Effort operator-(const Effort& before) const {
    return {reduced - before.reduced, copied - before.copied};
  }
};

}  // namespace hvd::collectives
