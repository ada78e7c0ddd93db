// SPDX-License-Identifier: Apache-2.0
// Element types and reduction operators, numbered as in hvd.h. The table of types is dtype.def.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

enum class DType : int32_t {
#define HVD_DTYPE(enumerator, name, value, size, c_name) enumerator = value,
#include "base/dtype.def"
};

// Bytes per element; 0 for a number that is no type.
size_t dtype_size(DType dtype) noexcept;

// "float32"; "invalid" for a number that is no type.
const char* dtype_name(DType dtype) noexcept;

bool dtype_valid(int32_t value) noexcept;

enum class ReduceOp : int32_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
};

// "sum"; "invalid" for a number that is no operator.
const char* reduce_op_name(ReduceOp op) noexcept;

}  // namespace hvd
