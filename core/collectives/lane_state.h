// SPDX-License-Identifier: Apache-2.0
// What the collectives of one process set keep from one program to the next: the lane, and what is
// known of its members.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/cache_topology.h"
#include "collectives/effort.h"
#include "collectives/patterns.h"
#include "collectives/settings.h"
#include "collectives/slots.h"
#include "transport/lane.h"

namespace hvd::collectives {

// Neither copied nor moved: programs and the cache topology point to it.
struct LaneState {
  // The lane outlives the state.
  LaneState(transport::Lane& of, const Settings& how);
  LaneState(const LaneState&) = delete;
  LaneState& operator=(const LaneState&) = delete;

  int size() const { return lane.size(); }
  int me() const { return lane.me; }
  bool remote(int member) const { return lane.streams[static_cast<size_t>(member)] != nullptr; }
  transport::Stream& stream(int member) const { return *lane.streams[static_cast<size_t>(member)]; }
  bool several_hosts() const { return lane.hosts > 1; }

  transport::Lane& lane;
  const Settings settings;
  Slots slots;
  CacheTopology cache_topology;
  const HostMap host_map;
  Effort effort;
  // Scratch of the one program that runs.
  // per member, the contribution to the chunk at hand; null: own input, in place
  std::vector<const std::byte*> chunks;
  std::vector<const void*> sources;  // per contribution, the place of the stretch at hand
};

}  // namespace hvd::collectives
