// SPDX-License-Identifier: Apache-2.0
// How large a payload may be to travel inside the message that announces its operation.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace hvd::engine {

inline constexpr int64_t kChooseEagerBytes = -1;

// Bytes for a set of these ranks; `option` is eager_bytes. Every member may choose on its own: what does not travel with all
// announcements goes the usual way.
int64_t eager_limit(int64_t option, const Topology& topology, const std::vector<int>& ranks);

}  // namespace hvd::engine
