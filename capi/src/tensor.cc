// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"
#include "boundary.h"

namespace {

constexpr bool same(hvd::DType dtype, hvd_dtype number) { return static_cast<hvd_dtype>(dtype) == number; }

static_assert(same(hvd::DType::kUint8, HVD_UINT8) && same(hvd::DType::kInt8, HVD_INT8));
static_assert(same(hvd::DType::kUint16, HVD_UINT16) && same(hvd::DType::kInt16, HVD_INT16));
static_assert(same(hvd::DType::kInt32, HVD_INT32) && same(hvd::DType::kInt64, HVD_INT64));
static_assert(same(hvd::DType::kFloat16, HVD_FLOAT16) && same(hvd::DType::kBfloat16, HVD_BFLOAT16));
static_assert(same(hvd::DType::kFloat32, HVD_FLOAT32) && same(hvd::DType::kFloat64, HVD_FLOAT64));
static_assert(same(hvd::DType::kBool, HVD_BOOL));

}  // namespace

size_t hvd_dtype_size(hvd_dtype dtype) { return hvd::dtype_size(static_cast<hvd::DType>(dtype)); }

const char* hvd_dtype_name(hvd_dtype dtype) {
  return hvd::dtype_valid(dtype) ? hvd::dtype_name(static_cast<hvd::DType>(dtype)) : "unknown";
}
