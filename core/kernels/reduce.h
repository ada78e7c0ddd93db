// SPDX-License-Identifier: Apache-2.0
// Element-wise reductions over plain memory, which a collective runs between two copies.
//
// Every instruction set computes the same bits. The rules that make this so:
//   order     srcs[0] op srcs[1] op ..., strictly left to right
//   halves    float16 and bfloat16 are widened to float32, reduced and scaled there, and rounded
//             once, to nearest even
//   NaN       a NaN in any input makes the result NaN, for Min and Max too; every computed NaN is
//             the canonical one (quiet, positive, payload zero), because which payload survives an
//             addition is the processor's choice
//   one       a single source that is not scaled is copied, not computed: NaNs keep their bits
//             (bool becomes 0 or 1)
//   zeros     max(-0, +0) is +0 and min(-0, +0) is -0, in either order
//   integers  Sum and Product wrap around in two's complement; scaling multiplies in float64,
//             truncates toward zero and saturates at the limits of the type; a NaN product becomes
//             0. A factor that is the double nearest to 1/n, n whole, divides by n exactly,
//             truncating toward zero
//   bool      a nonzero byte counts as 1 and results are 0 or 1; Sum and Max are OR, Product and
//             Min are AND; scaling has no effect
//   complex   Sum only, of the parts; the parts are scaled like other numbers of their size
//   scaling   float32 multiplies by the factor rounded to float32, float64 in float64, after the
//             reduction; a factor of exactly 1.0 leaves the value untouched
// Denormals are kept, under the rounding mode and flush settings every thread starts with.
//
// Pointers may have any alignment, also one that splits elements. Counts are in elements and may be
// 0; then no pointer is looked at. Types that are only moved (dtype_reducible) are left alone. No
// function allocates, throws or keeps state.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace hvd::kernels {

struct ReduceArgs {
  DType dtype = DType::kFloat32;
  // kAverage is kSum: the caller chooses the postscale; kAdasum writes nothing
  ReduceOp op = ReduceOp::kSum;
  void* dst = nullptr;  // may equal one of srcs exactly; must not overlap one partially
  // receives the same bytes if not null; the same rule, and distinct from dst
  void* dst2 = nullptr;
  const void* const* srcs = nullptr;
  size_t nsrc = 0;  // 0 writes the identity of op
  size_t count = 0;
  double postscale = 1.0;
  // dst will not be read again soon: non-temporal stores where there are such
  bool non_temporal = false;
};

// dst[i] = postscale * (srcs[0][i] op srcs[1][i] op ...)
void reduce(const ReduceArgs& args) noexcept;

// dst[i] = factor * src[i]; dst may equal src. A factor of 1.0 copies.
void scale(DType dtype, void* dst, const void* src, size_t count, double factor) noexcept;

// Adds the inner products of all pairs to the row-major matrix g: g[i * nsrc + j] += sum over k of
// srcs[i][k] * srcs[j][k], in float64. The order of that sum is fixed (eight interleaved partial
// sums per block of 2048) but is not left to right. Floating types only.
void gram(DType dtype, const void* const* srcs, size_t nsrc, size_t count, double* g) noexcept;

// dst[i] = postscale * (weights[0] * srcs[0][i] + weights[1] * srcs[1][i] + ...), each product and
// sum rounded: in float64 for float64, otherwise in float32 with the weights rounded to float32.
// Floating types only; aliasing as in reduce().
void weighted_sum(DType dtype, void* dst, void* dst2, const void* const* srcs,
                  const double* weights, size_t nsrc, size_t count, double postscale) noexcept;

// The value e with e op x = x: 0 for Sum, 1 for Product, the largest value (or +inf) for Min, the
// lowest (or -inf) for Max. (For Sum up to the sign of zero: 0 + -0 is +0.)
void fill_identity(DType dtype, ReduceOp op, void* dst, size_t count) noexcept;

// memcpy, and memcpy with non-temporal stores where there are such, for destinations not read again
// soon.
void copy(void* dst, const void* src, size_t bytes) noexcept;
void copy_non_temporal(void* dst, const void* src, size_t bytes) noexcept;

enum class Isa { kScalar, kAvx2, kAvx512 };

// Every kernel, compiled for an instruction set.
struct KernelTable {
  const char* name;
  void (*reduce)(const ReduceArgs&) noexcept;
  void (*scale)(DType, void* dst, const void* src, size_t count, double factor) noexcept;
  void (*gram)(DType, const void* const* srcs, size_t nsrc, size_t count, double* g) noexcept;
  void (*weighted_sum)(DType, void* dst, void* dst2, const void* const* srcs, const double* weights,
                       size_t nsrc, size_t count, double postscale) noexcept;
  void (*copy_non_temporal)(void* dst, const void* src, size_t bytes) noexcept;
};

// Whether this build contains the kernels of `isa` and this processor and operating system can run
// them.
bool isa_supported(Isa isa) noexcept;

// The kernels of `isa`, or of kScalar where `isa` is not supported.
const KernelTable& table(Isa isa) noexcept;

// The instruction set the functions above use, chosen at their first call: "scalar", "avx2" or
// "avx512".
const char* isa_name() noexcept;

}  // namespace hvd::kernels
