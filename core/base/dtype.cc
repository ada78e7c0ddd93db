// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

namespace hvd {

#define HVD_DTYPE(enumerator, name, value, size, c_name, kind) \
  static_assert(sizeof(c_name) == (size), "dtype.def: " #name " has another size than " #c_name);
#include "base/dtype.def"

size_t dtype_size(DType dtype) noexcept {
  switch (dtype) {
#define HVD_DTYPE(enumerator, name, value, size, c_name, kind) \
  case DType::enumerator: return size;
#include "base/dtype.def"
  }
  return 0;
}

const char* dtype_name(DType dtype) noexcept {
  switch (dtype) {
#define HVD_DTYPE(enumerator, name, value, size, c_name, kind) \
  case DType::enumerator: return #name;
#include "base/dtype.def"
  }
  return "invalid";
}

bool dtype_valid(int32_t value) noexcept { return dtype_size(static_cast<DType>(value)) != 0; }

const char* reduce_op_name(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kAverage: return "average";
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kAdasum: return "adasum";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kProduct: return "product";
  }
  return "invalid";
}

}  // namespace hvd
