// SPDX-License-Identifier: Apache-2.0
// What the kernels should compute, written the slow and obvious way, and the data to try it on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reduce.h"

namespace hvd::kernels::test {

using Bytes = std::vector<unsigned char>;

// Those whose elements are single numbers that can be reduced.
inline constexpr DType kAllTypes[] = {
    DType::kUint8,    DType::kInt8,    DType::kUint16,  DType::kInt16,   DType::kInt32,
    DType::kInt64,    DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBool,
    DType::kBfloat16, DType::kUint32,  DType::kUint64};
inline constexpr DType kFloatingTypes[] = {DType::kFloat16, DType::kFloat32, DType::kFloat64,
                                           DType::kBfloat16};
inline constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProduct};

// What KernelTable::name should be.
const char* label(Isa isa);

bool is_half(DType dtype);

// A small generator of our own, so that a seed means the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  size_t below(size_t end) { return static_cast<size_t>(bits() % end); }

 private:
  uint64_t state_;
};

// `count` elements: a mix of small numbers, special values of the type and random bits.
Bytes random_elements(DType dtype, size_t count, Random& random);

// The half types to float32 and back, by arithmetic on values instead of bits.
float half_value(DType dtype, uint16_t bits);
uint16_t half_bits(DType dtype, float value);

// Element i of `bytes` as a double, exactly; not for int64.
double element_value(DType dtype, const Bytes& bytes, size_t i);

// Rounds `value` into element i of a floating type.
void put_value(DType dtype, Bytes& bytes, size_t i, double value);

// The bytes reduce() should write for these sources.
Bytes expected_reduce(DType dtype, ReduceOp op, std::span<const Bytes> sources, double postscale);

// The bytes weighted_sum() should write.
Bytes expected_weighted_sum(DType dtype, std::span<const Bytes> sources,
                            std::span<const double> weights, double postscale);

}  // namespace hvd::kernels::test
