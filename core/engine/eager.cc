// SPDX-License-Identifier: Apache-2.0
#include "engine/eager.h"

#include <algorithm>

namespace hvd::engine {
namespace {

// On one host, memory is as near as the coordinator from this size on.
constexpr int64_t kOnOneHost = 1024;
constexpr int64_t kMost = 8192;
// Between hosts a step of the data plane costs more than so few bytes do, until the coordinator,
// which receives all payloads and sends all results, has more of them to move than the others wait
// for: 32 KiB take a link of 1 Gbit/s 0.3 ms.
constexpr int64_t kOfCoordinator = 32768;
// Two members send each other all there is at once, which takes no more bytes than any other way
// for two.
constexpr int64_t kOfTwo = 65536;

}  // namespace

EagerLimit eager_limit(int64_t option, const Topology& topology, const std::vector<int>& ranks,
                       bool payloads_apart) {
  const int host = topology.host_index(ranks.front());
  const auto remote = std::count_if(ranks.begin(), ranks.end(),
                                    [&](int rank) { return topology.host_index(rank) != host; });
  const bool exchange = ranks.size() == 2 && remote == 1;
  if (option != kChooseEagerBytes) return {option, option, exchange};
  if (exchange && payloads_apart) return {kOfTwo, kOnOneHost, exchange};
  return {remote == 0 ? kOnOneHost : std::clamp(kOfCoordinator / remote, kOnOneHost, kMost),
          kOnOneHost, exchange};
}

std::vector<int> hosts_of(const Topology& topology, const std::vector<int>& ranks) {
  std::vector<int> seen;
  std::vector<int> hosts;
  hosts.reserve(ranks.size());
  for (const int rank : ranks) {
    const int host = topology.host_index(rank);
    const auto found = std::find(seen.begin(), seen.end(), host);
    hosts.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(host);
  }
  if (seen.size() <= 1 || seen.size() == ranks.size()) hosts.clear();
  return hosts;
}

}  // namespace hvd::engine
