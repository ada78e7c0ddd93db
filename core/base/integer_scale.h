// SPDX-License-Identifier: Apache-2.0
// Integers times a factor, by the rules of kernels/reduce.h.
#pragma once

#include <cstdint>

#include "base/platform.h"

namespace hvd {

// n if `factor` is the double nearest to 1/n for a whole n, else 0. Such factors are meant as
// divisions, and are carried out as divisions: a product with the rounded reciprocal would miss for
// large values and, after truncation, for multiples of n.
HVD_ANYWHERE int64_t whole_divisor(double factor) noexcept {
  if (!(factor > 1e-9) || !(factor < 1.0)) return 0;
  const auto n = static_cast<int64_t>(1.0 / factor + 0.5);
  return 1.0 / static_cast<double>(n) == factor ? n : 0;
}

// Truncates toward zero. `divisor` comes from whole_divisor().
template <class T>
HVD_ANYWHERE T divided_int(T value, int64_t divisor) noexcept {
  constexpr bool kWideUnsigned = sizeof(T) >= 4 && T(0) < T(-1);
  if (kWideUnsigned) return static_cast<T>(value / static_cast<T>(divisor));
  if (sizeof(T) < 8)
    return static_cast<T>(static_cast<int32_t>(value) / static_cast<int32_t>(divisor));
  return static_cast<T>(static_cast<int64_t>(value) / divisor);
}

// Truncates toward zero and saturates; NaN is 0. `kEnd` is one above the largest value, which a
// double may not have.
template <class T>
HVD_ANYWHERE T scaled_int(T value, double factor) noexcept {
  constexpr bool kSigned = T(-1) < T(0);
  constexpr T kMax = static_cast<T>(~uint64_t{0} >> (64 - 8 * sizeof(T) + kSigned));
  constexpr T kMin = static_cast<T>(-kMax - 1) * kSigned;
  constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (8 * sizeof(T) - kSigned - 1));
  constexpr double kLow = kSigned ? -kEnd : 0.0;
  const double product = static_cast<double>(value) * factor;
  if (product >= kEnd) return kMax;
  if (product > kLow) return static_cast<T>(product);
  return product <= kLow ? kMin : T{0};
}

}  // namespace hvd
