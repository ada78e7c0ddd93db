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

// The types of real numbers with a point that kernels exist for.
constexpr bool dtype_floating(DType dtype) noexcept {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// Numbers that are reduced as pairs of real ones.
constexpr bool dtype_complex(DType dtype) noexcept { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

// Whether elements can be reduced, and not only moved.
constexpr bool dtype_reducible(DType dtype) noexcept { return dtype < DType::kBytes; }

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
