// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"
#include "boundary.h"

namespace {

constexpr bool same(hvd::DType dtype, hvd_dtype number) {
  return static_cast<hvd_dtype>(dtype) == number;
}

static_assert(same(hvd::DType::kUint8, HVD_UINT8) && same(hvd::DType::kInt8, HVD_INT8));
static_assert(same(hvd::DType::kUint16, HVD_UINT16) && same(hvd::DType::kInt16, HVD_INT16));
static_assert(same(hvd::DType::kInt32, HVD_INT32) && same(hvd::DType::kInt64, HVD_INT64));
static_assert(same(hvd::DType::kFloat16, HVD_FLOAT16) && same(hvd::DType::kBfloat16, HVD_BFLOAT16));
static_assert(same(hvd::DType::kFloat32, HVD_FLOAT32) && same(hvd::DType::kFloat64, HVD_FLOAT64));
static_assert(same(hvd::DType::kBool, HVD_BOOL) && same(hvd::DType::kBytes, HVD_BYTES));
static_assert(same(hvd::DType::kUint32, HVD_UINT32) && same(hvd::DType::kUint64, HVD_UINT64));
static_assert(same(hvd::DType::kComplex64, HVD_COMPLEX64) &&
              same(hvd::DType::kComplex128, HVD_COMPLEX128));
static_assert(same(hvd::DType::kComplex32, HVD_COMPLEX32));
static_assert(same(hvd::DType::kFloat8E3m4, HVD_FLOAT8_E3M4) &&
              same(hvd::DType::kFloat8E4m3, HVD_FLOAT8_E4M3));
static_assert(same(hvd::DType::kFloat8E4m3b11fnuz, HVD_FLOAT8_E4M3B11FNUZ));
static_assert(same(hvd::DType::kFloat8E4m3fn, HVD_FLOAT8_E4M3FN) &&
              same(hvd::DType::kFloat8E4m3fnuz, HVD_FLOAT8_E4M3FNUZ));
static_assert(same(hvd::DType::kFloat8E5m2, HVD_FLOAT8_E5M2) &&
              same(hvd::DType::kFloat8E5m2fnuz, HVD_FLOAT8_E5M2FNUZ));
static_assert(same(hvd::DType::kFloat8E8m0fnu, HVD_FLOAT8_E8M0FNU) &&
              same(hvd::DType::kFloat4E2m1fn, HVD_FLOAT4_E2M1FN));
static_assert(same(hvd::DType::kInt2, HVD_INT2) && same(hvd::DType::kUint2, HVD_UINT2));
static_assert(same(hvd::DType::kInt4, HVD_INT4) && same(hvd::DType::kUint4, HVD_UINT4));

}  // namespace

size_t hvd_dtype_size(hvd_dtype dtype) { return hvd::dtype_size(static_cast<hvd::DType>(dtype)); }

const char* hvd_dtype_name(hvd_dtype dtype) {
  return hvd::dtype_valid(dtype) ? hvd::dtype_name(static_cast<hvd::DType>(dtype)) : "unknown";
}
