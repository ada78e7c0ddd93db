// SPDX-License-Identifier: Apache-2.0
// How large a payload may be to travel inside the message that announces its operation.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace hvd::engine {

inline constexpr int64_t kChooseEagerBytes = -1;

// Limits in bytes. Every member may choose on its own: a payload that does not travel with all
// announcements goes the usual way.
struct EagerLimit {
  // for an operation while nothing else is in flight: soonest done with one round trip
  int64_t alone = 0;
  int64_t among_others = 0;  // for one of several, which are rather reduced together
  // Eager exchange: in a set of two members the coordinator sends its payload to the other one at
  // once, so that both finish after one way instead of one there and back. The coordinator alone
  // decides.
  bool exchange = false;
  bool operator==(const EagerLimit&) const = default;
};

// For a set of these ranks; `option` is eager_bytes. `payloads_apart`: see Fabric.
EagerLimit eager_limit(int64_t option, const Topology& topology, const std::vector<int>& ranks,
                       bool payloads_apart);

// Per member of a set its host; hosts are counted from 0 by first member. Empty where putting the
// members of each host together first makes no difference.
std::vector<int> hosts_of(const Topology& topology, const std::vector<int>& ranks);

}  // namespace hvd::engine
