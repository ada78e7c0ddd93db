// SPDX-License-Identifier: Apache-2.0
// From the C arguments of a collective to a checked and signed Operation.
#pragma once

#include <memory>
#include <span>

#include "boundary.h"

namespace hvd::capi {

struct Request {
  hvd_context* context = nullptr;
  OpKind kind = OpKind::kBarrier;
  std::span<const hvd_tensor> inputs;
  const hvd_tensor* outputs = nullptr;  // parallel to inputs, or null
  const int64_t* send_splits = nullptr;
  const hvd_op_options* options = nullptr;
};

// Errors begin with the operation, `allreduce "x": `, and name the value found and what is allowed.
Result<std::unique_ptr<engine::Operation>> make_operation(const Request& request);

}  // namespace hvd::capi
