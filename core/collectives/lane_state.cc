// SPDX-License-Identifier: Apache-2.0
#include "collectives/lane_state.h"

namespace hvd::collectives {

LaneState::LaneState(transport::Lane& of, const Settings& how)
    : lane(of),
      settings(how),
      slots(of),
      cache_topology(slots, how.non_temporal_stores),
      host_map(of.host_of, of.hosts),
      chunks(static_cast<size_t>(of.size())),
      sources(static_cast<size_t>(of.size())) {}

}  // namespace hvd::collectives
