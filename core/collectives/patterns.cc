// SPDX-License-Identifier: Apache-2.0
#include "collectives/patterns.h"

#include <bit>

#include "base/adasum.h"

namespace hvd::collectives {

HostMap::HostMap(std::span<const int> host_of, int hosts)
    : host_of_(host_of.begin(), host_of.end()),
      members_(static_cast<size_t>(hosts)),
      place_(host_of.size()) {
  for (size_t m = 0; m < host_of.size(); ++m) {
    std::vector<int>& there = members_[static_cast<size_t>(host_of[m])];
    place_[m] = static_cast<int>(there.size());
    there.push_back(static_cast<int>(m));
  }
  smallest_ = static_cast<int>(host_of.size());
  for (const std::vector<int>& there : members_)
    smallest_ = std::min(smallest_, static_cast<int>(there.size()));
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
  for (int bit = static_cast<int>(std::bit_ceil(static_cast<unsigned>(host) + 1));
       host + bit < hosts; bit *= 2) {
    children.push_back(host + bit);
  }
  return children;
}

void adasum_weights(const double* gram, const std::vector<bool>& active, double* weights) {
  const size_t n = active.size();
  std::vector<double> rows;
  size_t count = 0;
  for (size_t m = 0; m < n; ++m) {
    if (!active[m]) continue;
    rows.resize(++count * n, 0.0);
    rows[(count - 1) * n + m] = 1.0;
  }
  combine_adasum(gram, n, rows.data(), count);
  for (size_t m = 0; m < n; ++m) weights[m] = count == 0 ? 0.0 : rows[m];
}

}  // namespace hvd::collectives
