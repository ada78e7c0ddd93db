// SPDX-License-Identifier: Apache-2.0
// The factor of an average, applied as the kernels apply it, gives the mathematical result.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "engine/execution.h"
#include "kernels/reduce.h"

namespace hvd::engine {
namespace {

int64_t averaged(DType dtype, int64_t sum, double postscale, int n) {
  int64_t wide = sum;
  auto narrow = static_cast<int32_t>(sum);
  void* data = dtype == DType::kInt64 ? static_cast<void*>(&wide) : &narrow;
  const void* sources[] = {data};
  int64_t out = 0;
  kernels::ReduceArgs args;
  args.dtype = dtype;
  args.op = ReduceOp::kSum;
  args.dst = &out;
  args.srcs = sources;
  args.nsrc = 1;
  args.count = 1;
  args.postscale = average_factor(dtype, postscale, n);
  kernels::reduce(args);
  if (dtype == DType::kInt64) return out;
  int32_t low = 0;
  std::memcpy(&low, &out, sizeof low);
  return low;
}

TEST(AverageFactor, IntegersTruncateTowardZeroExactly) {
  std::mt19937_64 random(1);
  for (int n = 1; n <= 300; ++n) {
    for (int64_t sum = -3 * n; sum <= 3 * n; ++sum)
      ASSERT_EQ(averaged(DType::kInt32, sum, 1.0, n), sum / n) << sum << "/" << n;
    for (int round = 0; round < 20; ++round) {
      const auto sum = static_cast<int32_t>(random());
      ASSERT_EQ(averaged(DType::kInt32, sum, 1.0, n), sum / n) << sum << "/" << n;
    }
  }
}

TEST(AverageFactor, WideIntegersDivideExactly) {
  std::mt19937_64 random(2);
  for (int n = 1; n <= 200; ++n) {
    for (int round = 0; round < 50; ++round) {
      const auto sum = static_cast<int64_t>(random());
      ASSERT_EQ(averaged(DType::kInt64, sum, 1.0, n), sum / n) << sum << "/" << n;
    }
  }
}

TEST(AverageFactor, ExactResultsOfScaledAveragesAreNotOneTooLow) {
  for (int n = 1; n <= 200; ++n) {
    for (int scale = 2; scale <= 9; ++scale) {
      for (int value = -20; value <= 20; ++value) {
        ASSERT_EQ(averaged(DType::kInt32, int64_t{value} * n, scale, n), value * scale)
            << value << "*" << n << " scaled by " << scale << " over " << n;
      }
    }
  }
}

TEST(AverageFactor, FloatsGetThePlainFactor) {
  for (int n = 1; n <= 64; ++n) {
    EXPECT_EQ(average_factor(DType::kFloat32, 1.0, n), 1.0 / n);
    EXPECT_EQ(average_factor(DType::kFloat64, 3.0, n), 3.0 / n);
    EXPECT_EQ(average_factor(DType::kBfloat16, -0.5, n), -0.5 / n);
  }
}

}  // namespace
}  // namespace hvd::engine
