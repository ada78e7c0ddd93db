// SPDX-License-Identifier: Apache-2.0
// Element types and reduction operators, numbered as in hvd.h. The table of types is dtype.def.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

enum class DType : int32_t {
#define HVD_DTYPE(enumerator, name, value, size, c_name, kind) enumerator = value,
#include "base/dtype.def"
};

// Bytes per element; 0 for a number that is no type.
size_t dtype_size(DType dtype) noexcept;

// "float32"; "invalid" for a number that is no type.
const char* dtype_name(DType dtype) noexcept;

bool dtype_valid(int32_t value) noexcept;

// How elements are reduced.
enum class DTypeKind {
  kInteger,
  kFloating,  // real numbers with a point
  kBool,      // a sum is "or", a product is "and"
  kComplex,   // as pairs of real numbers
  kMoved,     // not at all: such elements only move
};

// kMoved for a number that is no type.
constexpr DTypeKind dtype_kind(DType dtype) noexcept {
  switch (dtype) {
#define HVD_DTYPE(enumerator, name, value, size, c_name, kind) \
  case DType::enumerator: return DTypeKind::kind;
#include "base/dtype.def"
  }
  return DTypeKind::kMoved;
}

constexpr bool dtype_floating(DType dtype) noexcept {
  return dtype_kind(dtype) == DTypeKind::kFloating;
}
constexpr bool dtype_complex(DType dtype) noexcept {
  return dtype_kind(dtype) == DTypeKind::kComplex;
}
constexpr bool dtype_reducible(DType dtype) noexcept {
  return dtype_kind(dtype) != DTypeKind::kMoved;
}

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
