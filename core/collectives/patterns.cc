// SPDX-License-Identifier: Apache-2.0
#include "collectives/patterns.h"

#include <bit>
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

HostMap::HostMap(std::span<const int> host_of, int hosts)
    : host_of_(host_of.begin(), host_of.end()), members_(static_cast<size_t>(hosts)), place_(host_of.size()) {
  for (size_t m = 0; m < host_of.size(); ++m) {
    std::vector<int>& there = members_[static_cast<size_t>(host_of[m])];
    place_[m] = static_cast<int>(there.size());
    there.push_back(static_cast<int>(m));
  }
  smallest_ = static_cast<int>(host_of.size());
  for (const std::vector<int>& there : members_) smallest_ = std::min(smallest_, static_cast<int>(there.size()));
}

std::vector<int> HostMap::wards(int member) const {
  std::vector<int> wards;
  for (int m = 0; m < static_cast<int>(host_of_.size()); ++m) {
    if (host(m) != host(member) && proxy(host(member), m) == member) wards.push_back(m);
  }
  return wards;
}

// A binomial tree: a host's parent lacks its highest bit.
int broadcast_parent(int host, bool chain) {
  return chain ? host - 1 : host - static_cast<int>(std::bit_floor(static_cast<unsigned>(host)));
}

std::vector<int> broadcast_children(int host, int hosts, bool chain) {
  std::vector<int> children;
  if (chain) {
    if (host + 1 < hosts) children.push_back(host + 1);
    return children;
  }
  // The first child was sent to first and has the longest time to pass on.
  for (int bit = static_cast<int>(std::bit_ceil(static_cast<unsigned>(host) + 1)); host + bit < hosts; bit *= 2) {
    children.push_back(host + bit);
  }
  return children;
}

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
