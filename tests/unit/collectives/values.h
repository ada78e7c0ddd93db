// SPDX-License-Identifier: Apache-2.0
// Inputs that every member can compute for every other, and what should come of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace hvd::test {

using Bytes = std::vector<std::byte>;

// Finite random values of a type, determined by the key.
Bytes random_values(DType dtype, size_t count, uint64_t key);
Bytes random_bytes(size_t count, uint64_t key);

// inputs[0] op inputs[1] op ... of whole vectors; an empty input is the identity.
Bytes reduced(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs, size_t count,
              double prescale, double postscale);

// The same, first within every host and then over the hosts.
Bytes reduced_by_hosts(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs,
                       const std::vector<int>& host_of, size_t count, double prescale,
                       double postscale);

}  // namespace hvd::test
