// SPDX-License-Identifier: Apache-2.0
// What a data plane has spent on its works so far, in ticks (base/ticks.h), and what it has moved,
// in bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ticks.h"

namespace hvd::collectives {

struct Effort {
  uint64_t reduced = 0;         // in kernels that put contributions together
  uint64_t copied = 0;          // into and out of the memory that members share
  uint64_t shared_bytes = 0;    // copied so
  uint64_t streamed_bytes = 0;  // sent by streams to other hosts
  uint64_t plugin_bytes = 0;    // in works that a plug-in was given

  Effort operator-(const Effort& before) const {
    return {reduced - before.reduced, copied - before.copied, shared_bytes - before.shared_bytes,
            streamed_bytes - before.streamed_bytes, plugin_bytes - before.plugin_bytes};
  }
};

// Lasts as long as so many bytes are copied into or out of the memory that members share.
class CopyScope {
 public:
  CopyScope(Effort& effort, size_t bytes) : scope_(effort.copied) { effort.shared_bytes += bytes; }

 private:
  TickScope scope_;
};

}  // namespace hvd::collectives
