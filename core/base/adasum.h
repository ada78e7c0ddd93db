// SPDX-License-Identifier: Apache-2.0
// The weights with which Adasum adds vectors, from their inner products. Without memory of its own,
// for devices too.
#pragma once

#include <cstddef>

#include "base/platform.h"

namespace hvd {

// An inner product and the sum of the magnitudes it was added up from, which bounds its rounding
// error.
struct InnerProduct {
  double value = 0;
  double magnitude = 0;
};

// The inner products of two vectors that are known only as weighted sums of n vectors. The inner
// products of those n are in `gram` (row-major, n x n).
HVD_ANYWHERE InnerProduct inner_product(const double* gram, size_t n, const double* a,
                                        const double* b) noexcept {
  InnerProduct sum;
  for (size_t i = 0; i < n; ++i) {
    if (a[i] == 0) continue;
    for (size_t j = 0; j < n; ++j) {
      const double term = a[i] * gram[i * n + j] * b[j];
      sum.value += term;
      sum.magnitude += term < 0 ? -term : term;
    }
  }
  return sum;
}

// The factor of a vector in the combination of two: 1 if they are orthogonal to each other, 1/2 if
// they are equal. A vector that is zero but for rounding, because the inputs in it cancelled out,
// counts as zero, since its direction is noise.
HVD_ANYWHERE double adasum_share(double product, const InnerProduct& norm_squared) noexcept {
  constexpr double kSmallest = 0x1p-511;  // whose square is the smallest normal number
  constexpr double kNoise = 1e-14;        // relative to the terms of a sum
  if (norm_squared.value < kSmallest || norm_squared.value < kNoise * norm_squared.magnitude)
    return 1.0;
  return 1.0 - product / (2 * norm_squared.value);
}

// Combines vectors in pairs at distance 1, then 2, 4, ...; a vector without a partner waits for the
// next distance. `rows`: `count` x n weights, a row for each vector; the first becomes the result.
HVD_ANYWHERE void combine_adasum(const double* gram, size_t n, double* rows,
                                 size_t count) noexcept {
  for (size_t distance = 1; distance < count; distance *= 2) {
    for (size_t i = 0; i + distance < count; i += 2 * distance) {
      double* a = rows + i * n;
      const double* b = a + distance * n;
      const double product = inner_product(gram, n, a, b).value;
      const double share_a = adasum_share(product, inner_product(gram, n, a, a));
      const double share_b = adasum_share(product, inner_product(gram, n, b, b));
      for (size_t m = 0; m < n; ++m) a[m] = share_a * a[m] + share_b * b[m];
    }
  }
}

}  // namespace hvd
