// SPDX-License-Identifier: Apache-2.0
#include "engine/eager.h"

#include <algorithm>

namespace hvd::engine {
namespace {

// On one host memory is as near as the coordinator from here on.
constexpr int64_t kOnOneHost = 1024;
constexpr int64_t kMost = 8192;
// Between hosts a step of the data plane costs more than such bytes do, until the coordinator, who receives all payloads and
// sends all results, has more of them to move than the others wait for: 32 KiB take a link of 1 Gbit/s 0.3 ms.
constexpr int64_t kOfCoordinator = 32768;

}  // namespace

EagerLimit eager_limit(int64_t option, const Topology& topology, const std::vector<int>& ranks) {
  if (option != kChooseEagerBytes) return {option, option};
  const int host = topology.host_index(ranks.front());
  const auto remote = std::count_if(ranks.begin(), ranks.end(), [&](int rank) { return topology.host_index(rank) != host; });
  return {remote == 0 ? kOnOneHost : std::clamp(kOfCoordinator / remote, kOnOneHost, kMost), kOnOneHost};
}

}  // namespace hvd::engine
