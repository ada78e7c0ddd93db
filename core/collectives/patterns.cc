// SPDX-License-Identifier: Apache-2.0
#include "collectives/patterns.h"

#include <cfloat>
#include <cmath>

namespace hvd::collectives {

namespace {

// Relative to the terms of a sum.
constexpr double kNoise = 1e-14;

// A vector known only as a weighted sum of the members' vectors.
using Weights = std::vector<double>;

// An inner product and the sum of the magnitudes it was added up from, which bounds its rounding error.
struct Product {
  double value = 0;
  double magnitude = 0;
};

Product inner_product(const double* gram, const Weights& a, const Weights& b) {
  const size_t n = a.size();
  Product sum;
  for (size_t i = 0; i < n; ++i) {
    if (a[i] == 0) continue;
    for (size_t j = 0; j < n; ++j) {
      const double term = a[i] * gram[i * n + j] * b[j];
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
  }
  return sum;
}

// What a vector is multiplied with: all of it if it is orthogonal to the other, half if they are equal. A vector that is zero
// but for rounding, because the inputs in it cancelled out, counts as zero: its direction is noise.
double share(double product, const Product& norm_squared) {
  if (norm_squared.value < std::sqrt(DBL_MIN) || norm_squared.value < kNoise * norm_squared.magnitude) return 1.0;
  return 1.0 - product / (2 * norm_squared.value);
}

void combine_into(const double* gram, Weights& a, const Weights& b) {
  const double product = inner_product(gram, a, b).value;
  const double share_a = share(product, inner_product(gram, a, a));
  const double share_b = share(product, inner_product(gram, b, b));
  for (size_t i = 0; i < a.size(); ++i) a[i] = share_a * a[i] + share_b * b[i];
}

}  // namespace

void adasum_weights(const double* gram, const std::vector<bool>& active, double* weights) {
  const size_t n = active.size();
  std::vector<Weights> nodes;
  for (size_t m = 0; m < n; ++m) {
    if (!active[m]) continue;
    nodes.emplace_back(n, 0.0);
    nodes.back()[m] = 1.0;
  }
  for (size_t distance = 1; distance < nodes.size(); distance *= 2) {
    for (size_t i = 0; i + distance < nodes.size(); i += 2 * distance) combine_into(gram, nodes[i], nodes[i + distance]);
  }
  for (size_t m = 0; m < n; ++m) weights[m] = nodes.empty() ? 0.0 : nodes[0][m];
}

}  // namespace hvd::collectives
