// SPDX-License-Identifier: Apache-2.0
// Whether our kernels compute what the CPU does; on the stand-in by the unit tests, on a GPU by
// benchmarks/gpu.
#pragma once

#include <string>

#include "base/dtype.h"
#include "device/kernels.h"
#include "gpu.h"

namespace hvd::gpu {

// What there are products for.
inline constexpr DType kScaled[] = {DType::kUint8,   DType::kInt8,    DType::kInt32,
                                    DType::kInt64,   DType::kFloat16, DType::kBfloat16,
                                    DType::kFloat32, DType::kFloat64};

// Each says what differs, or nothing.

// Every byte where it belongs and no other.
std::string check_copies(Gpu& gpu, const device::Kernels& kernels);
// The CPU's results to the bit, but for which NaN it is; into other memory and in place.
std::string check_products(Gpu& gpu, const device::Kernels& kernels, DType dtype);
// All of Adasum's, of 2, 3 and 8 members: to rounding.
std::string check_adasum(Gpu& gpu, const device::Kernels& kernels);
// Kernels that a stream captures in that mode: they do nothing then, and the same at every launch
// of the graph.
std::string check_graph(Gpu& gpu, const device::Kernels& kernels, int mode);

}  // namespace hvd::gpu
